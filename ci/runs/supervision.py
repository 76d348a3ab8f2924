"""The commands of a run: started, watched, and ended when they hang, take too long, or are not wanted any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ci.engines.engine import Command, Execution, Workspace
from ci.errors import ImageError, ProductError, TimeLimitError
from ci.plan import Step
from ci.runs import diagnose
from ci.runs.diagnose import Diagnosis
from ci.runs.events import EVENTS_VARIABLE, Event, ObserverError, RolloutError
from ci.runs.progress import elapsed
from ci.runs.run import Run, cancelled

_POLL_S = 0.1
_ROLLOUT_ERROR_GRACE_S = 5.0
"""How long a trainer has to fail by itself after a rollout server raised: its own traceback says more than ours."""
_DRAIN_S = 2.0
"""How long the log may stand still while its rest is written, once every process has ended."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_STACKS_HINT = "stacks.txt has what every process was doing"


def run_commands(run: Run, workspace: Workspace) -> None:
    """Run the data steps whose files are not there, then the trainer; stop at the first that does not end well."""
    for step in run.plan.steps:
        if not all(Path(path).exists() for path in step.creates):
            run.progress.enter(f"running data step {step.name}")
            run_command(run, workspace, step.name, step.argv)
            if run.diagnosis is None and (missing := _missing(step)):
                run.diagnosis = Diagnosis(
                    failure_class="product",
                    message=f"the data step {step.name} ended well but did not create {', '.join(missing)}",
                    hint=f"does `creates` in ci/scenarios/{run.plan.scenario}.yaml say what its command writes?",
                )
            if run.diagnosis is not None:
                return
    run.progress.enter("starting the trainer")
    run_command(run, workspace, "trainer", run.plan.argv)


def refuse_drift(run: Run, workspace: Workspace, culprit: str) -> None:
    """Compare the packages with those of the image.

    Raises:
        ImageError: with every package that ``culprit`` has changed.
    """
    if (image := run.plan.image) and (found := workspace.drift()):
        count = "1 package" if len(found) == 1 else f"{len(found)} packages"
        raise ImageError(
            "\n".join((f"{culprit} changed {count} of the image {image.name}", *map("  - {}".format, found))),
            hint="install what a job needs into the image, or into an environment of its own",
        )


def run_command(
    run: Run, workspace: Workspace, name: str, argv: tuple[str, ...], environment: Mapping[str, str] = _NOTHING
) -> None:
    """Run one command to its end, and leave a diagnosis unless it ended well."""
    if run.cancellation.requested:
        raise cancelled(run)
    execution = workspace.start(
        Command(
            name=name,
            argv=argv,
            environment={EVENTS_VARIABLE: str(run.directory / "events.jsonl"), **environment},
            working_directory=run.plan.working_directory or str(run.directory),
        )
    )
    run.started = True
    run.exit_code = None
    thread = run.console.follow(execution.output())
    try:
        run.exit_code = _watch(run, execution)
    except (TimeLimitError, ProductError):
        # They end a run that is stuck: its stacks are all that anyone will ever learn of the reason.
        run.last_lines = run.console.tail()
        run.progress.enter("reading the stacks")
        text = execution.stacks(stop=lambda: run.cancellation.requested)
        (run.directory / "stacks.txt").write_text(text, encoding="utf-8")
        raise
    finally:
        execution.end()
        _drain(run, thread)
        for event in run.events.finish():
            _take(run, event)
    if run.exit_code != 0:
        log = run.directory / "console.log"
        run.diagnosis = diagnose.failed_command(name, run.exit_code, diagnose.last_part(log))


def _missing(step: Step) -> list[str]:
    return [path for path in step.creates if not Path(path).exists()]


def _watch(run: Run, execution: Execution) -> int:
    """Return the exit code; raise when the run has to be ended before it ends by itself."""
    stall = run.plan.stall_limit_s
    moved, moved_at = (-1, -1), time.monotonic()
    while (code := execution.poll()) is None:
        if run.cancellation.wait(_POLL_S):
            raise cancelled(run)
        for event in run.events.read():
            _take(run, event)
        run.progress.tick()
        now = time.monotonic()
        if run.console.error is not None:
            raise run.console.error
        if (run.console.received, run.events.position) != moved:
            moved, moved_at = (run.console.received, run.events.position), now
        if run.rollout_error is not None and now - run.rollout_error[0] > _ROLLOUT_ERROR_GRACE_S:
            raise _rollout_failed(run.rollout_error[1])
        if now > run.deadline:
            raise TimeLimitError(
                f"ended by its time limit of {elapsed(run.plan.time_limit_s)} {run.progress.where()}",
                hint=_STACKS_HINT,
            )
        if now - moved_at > stall:
            raise TimeLimitError(
                f"ended because neither its log nor its events moved for {elapsed(stall)} {run.progress.where()}",
                hint=_STACKS_HINT,
            )
    return code


def _drain(run: Run, thread: threading.Thread) -> None:
    """Wait for the rest of the log: every process has ended, so it takes as long as the disk and the terminal need."""
    patience = _DRAIN_S / 4 if run.cancellation.requested else _DRAIN_S
    moved = -1
    while thread.is_alive() and moved != run.console.received:
        moved = run.console.received
        thread.join(patience)
    if thread.is_alive():
        run.terminal.give_up()
        thread.join(patience)


def _take(run: Run, event: Event) -> None:
    run.measurements.add(event)
    run.progress.take(event)
    match event:
        case RolloutError(error=error):
            run.rollout_error = run.rollout_error or (time.monotonic(), error)
        case ObserverError(error=error):
            run.notes.append(f"the observer could not see everything: {error}")
        case _:
            pass


def _rollout_failed(error: str) -> ProductError:
    return ProductError(
        f"a rollout server raised, and verl would retry for ever: {error}",
        hint="the log has its traceback; stacks.txt shows who was waiting for it",
    )
