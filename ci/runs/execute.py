"""From a plan to a record: start what it says, watch it, end it, judge it. Whatever happens, there is a record."""

from __future__ import annotations

import contextlib
import errno
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from ci.engines.engine import Command, Engine, Execution, Workspace
from ci.engines.host import HostEngine
from ci.errors import (
    CancelledError,
    DeviceError,
    ImageError,
    ProductError,
    SuiteError,
    TimeLimitError,
    error_for,
)
from ci.plan import Plan, Step
from ci.runs import diagnose, record, report, verdict
from ci.runs.console import Console, Terminal
from ci.runs.diagnose import Diagnosis
from ci.runs.events import EVENTS_VARIABLE, Event, EventFile, ObserverError, RolloutError
from ci.runs.metrics import Measurements
from ci.runs.preparation import Prepare, Prepared
from ci.runs.progress import Progress, elapsed
from ci.runs.record import ImageRecord, Record, VerlRecord
from ci.runs.signals import Cancellation
from ci.runs.verdict import CheckResult

_POLL_S = 0.1
_ROLLOUT_ERROR_GRACE_S = 5.0
"""How long a trainer has to fail by itself after a rollout server raised: its own traceback says more than ours."""
_DRAIN_S = 2.0
"""How long the log may stand still while its rest is written, once every process has ended."""
_RESERVE = "reserve"
_RESERVE_BYTES = 256 * 1024
_NOTHING: Mapping[str, str] = MappingProxyType({})
_STACKS_HINT = "stacks.txt has what every process was doing"


@dataclass(kw_only=True)
class _Run:
    """What is found out while a plan is carried out."""

    plan: Plan
    id: str
    directory: Path
    terminal: Terminal
    progress: Progress
    console: Console
    events: EventFile
    cancellation: Cancellation
    deadline: float
    measurements: Measurements = field(default_factory=Measurements)
    started: bool = False
    exit_code: int | None = None
    diagnosis: Diagnosis | None = None
    rollout_error: tuple[float, str] | None = None
    notes: list[str] = field(default_factory=list)
    image_digest: str | None = None
    prepared: Prepared | None = None


def execute(
    plan: Plan,
    *,
    runs: Path,
    engine: Engine,
    prepare: Prepare,
    cancellation: Cancellation,
) -> Record:
    """Carry out a plan under ``runs/ID/``, and return its record, which is also written there.

    Call it in the main thread. A plan that is for preflight only ends after its preparation.

    Raises:
        SuiteError: not even the record could be written.
    """
    began, clock = datetime.now(UTC), time.monotonic()
    run_id = f"{began:%Y%m%dT%H%M%SZ}-{plan.scenario}-{secrets.token_hex(3)}"
    directory = runs.resolve() / run_id
    try:
        directory.mkdir(parents=True)
        (directory / _RESERVE).write_bytes(b"\0" * _RESERVE_BYTES)
        console = Console(directory / "console.log", terminal := Terminal(sys.stdout))
    except OSError as error:
        raise _unwritable(error, directory) from error
    with console:
        run = _Run(
            plan=plan,
            id=run_id,
            directory=directory,
            terminal=terminal,
            progress=Progress(plan, terminal),
            console=console,
            events=EventFile(directory / "events.jsonl"),
            cancellation=cancellation,
            deadline=clock + plan.time_limit_s,
        )
        terminal.line(report.opening(plan, directory))
        _carry_out(run, engine, prepare)
        result = _judge(run, began, time.monotonic() - clock)
        _keep(run, result)
        terminal.finish()
        terminal.line(report.closing(result, directory, tail=console.tail()))
    return result


def _carry_out(run: _Run, engine: Engine, prepare: Prepare) -> None:
    """Prepare, run the data steps and the trainer; every way this can end becomes a diagnosis."""
    try:
        _describe(run)
        with prepare(_Stage(run)) as prepared:
            run.prepared = prepared
            run.notes += prepared.notes
            if prepared.configuration is not None:
                (run.directory / "config.yaml").write_text(prepared.configuration, encoding="utf-8")
            if run.plan.preflight_only is None:
                _use(run, engine, prepared.devices)
    except SuiteError as error:
        if run.diagnosis is not None:  # packages that were replaced explain it
            run.notes.append(f"before that: {run.diagnosis.message}")
        run.diagnosis = Diagnosis(failure_class=error.failure_class, message=error.message, hint=error.hint)
    except OSError as error:
        wrapped = _unwritable(error, run.directory)
        run.diagnosis = Diagnosis(failure_class=wrapped.failure_class, message=wrapped.message, hint=wrapped.hint)
    except Exception as error:  # noqa: BLE001  # a fault of the suite is recorded like every other outcome
        with contextlib.suppress(OSError):
            (run.directory / "suite-error.txt").write_text(traceback.format_exc(), encoding="utf-8")
        run.diagnosis = Diagnosis(
            failure_class="suite",
            message=f"the suite itself failed: {type(error).__name__}: {error}",
            hint=f"report it with {run.directory}/suite-error.txt",
        )


def _use(run: _Run, engine: Engine, devices: tuple[int, ...]) -> None:
    if run.cancellation.requested:
        raise _cancelled(run)
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(_opened(run, engine, devices))
        try:
            run.image_digest = workspace.image_digest
            _refuse_drift(run, workspace, "a step before the run")
            _commands(run, workspace)
            _refuse_drift(run, workspace, "the run, or a data step of it,")
        finally:
            stack.close()  # what could not be ended is known only now
            run.notes += workspace.notes


def _refuse_drift(run: _Run, workspace: Workspace, culprit: str) -> None:
    if (image := run.plan.image) and (found := workspace.drift()):
        count = "1 package" if len(found) == 1 else f"{len(found)} packages"
        raise ImageError(
            "\n".join((f"{culprit} changed {count} of the image {image.name}", *map("  - {}".format, found))),
            hint="install what a job needs into the image, or into an environment of its own",
        )


@dataclass(frozen=True)
class _Stage:
    """What the preparation may do with the run."""

    run: _Run

    def say(self, text: str) -> None:
        """Print a line above the progress."""
        self.run.terminal.line(text)

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run a command on the host as a part of the run; raise when it fails."""
        with _opened(self.run, HostEngine(), ()) as workspace:
            _command(self.run, workspace, Path(argv[0]).name, tuple(argv), environment)
        if self.run.diagnosis is not None:
            failed, self.run.diagnosis = self.run.diagnosis, None
            raise error_for(failed.failure_class)(failed.message, hint=failed.hint)
        self.run.started = False  # the run itself has not started yet


def _opened(run: _Run, engine: Engine, devices: tuple[int, ...]) -> AbstractContextManager[Workspace]:
    return engine.open(
        run.plan, run_id=run.id, directory=run.directory, devices=devices, stop=lambda: run.cancellation.requested
    )


def _describe(run: _Run) -> None:
    (run.directory / "plan.json").write_text(run.plan.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (run.directory / "events.jsonl").touch()
    latest = run.directory.parent / "latest"
    temporary = run.directory.parent / f".latest-{run.id}"
    temporary.symlink_to(run.id)
    temporary.replace(latest)


def _commands(run: _Run, workspace: Workspace) -> None:
    for step in run.plan.steps:
        if not all(Path(path).exists() for path in step.creates):
            run.progress.enter(f"running data step {step.name}")
            _command(run, workspace, step.name, step.argv)
            if run.diagnosis is None and (missing := _missing(step)):
                run.diagnosis = Diagnosis(
                    failure_class="product",
                    message=f"the data step {step.name} ended well but did not create {', '.join(missing)}",
                    hint=f"does `creates` in ci/scenarios/{run.plan.scenario}.yaml say what its command writes?",
                )
            if run.diagnosis is not None:
                return
    run.progress.enter("starting the trainer")
    _command(run, workspace, "trainer", run.plan.argv)


def _missing(step: Step) -> list[str]:
    return [path for path in step.creates if not Path(path).exists()]


def _command(
    run: _Run, workspace: Workspace, name: str, argv: tuple[str, ...], environment: Mapping[str, str] = _NOTHING
) -> None:
    """Run one command to its end, and leave a diagnosis unless it ended well."""
    if run.cancellation.requested:
        raise _cancelled(run)
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


def _watch(run: _Run, execution: Execution) -> int:
    """Return the exit code; raise when the run has to be ended before it ends by itself."""
    stall = run.plan.stall_limit_s
    moved, moved_at = (-1, -1), time.monotonic()
    while (code := execution.poll()) is None:
        if run.cancellation.wait(_POLL_S):
            raise _cancelled(run)
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


def _drain(run: _Run, thread: threading.Thread) -> None:
    """Wait for the rest of the log: every process has ended, so it takes as long as the disk and the terminal need."""
    patience = _DRAIN_S / 4 if run.cancellation.requested else _DRAIN_S
    moved = -1
    while thread.is_alive() and moved != run.console.received:
        moved = run.console.received
        thread.join(patience)
    if thread.is_alive():
        run.terminal.give_up()
        thread.join(patience)


def _take(run: _Run, event: Event) -> None:
    run.measurements.add(event)
    run.progress.take(event)
    match event:
        case RolloutError(error=error):
            run.rollout_error = run.rollout_error or (time.monotonic(), error)
        case ObserverError(error=error):
            run.notes.append(f"the observer could not see everything: {error}")
        case _:
            pass


def _judge(run: _Run, began: datetime, duration_s: float) -> Record:
    """Return the record: the checks count once the trainer ended well."""
    plan, diagnosis = run.plan, run.diagnosis
    checks: tuple[CheckResult, ...] = ()
    if diagnosis is None and plan.preflight_only is None:
        checks = verdict.check(plan.checks, run.measurements)
        diagnosis = diagnose.failed_checks(checks, rollout_error=run.rollout_error[1] if run.rollout_error else None)
    if run.events.unreadable:
        run.notes.append(f"{run.events.unreadable} lines of events.jsonl could not be read")
    image = plan.image and ImageRecord(
        name=plan.image.name,
        reference=plan.image.reference,
        digest=run.image_digest or plan.image.digest,
        verified=plan.image.verified,
    )
    return Record(
        id=run.id,
        scenario=plan.scenario,
        target=plan.target,
        engine=plan.engine,
        rehearsal=plan.rehearsal,
        image=image,
        verl=run.prepared.verl if run.prepared else VerlRecord(version=None, commit=None),
        devices=run.prepared.devices if run.prepared else (),
        started=began.isoformat(timespec="seconds"),
        duration_s=round(duration_s, 3),
        status=verdict.status(
            diagnosis.failure_class if diagnosis else None,
            started=run.started,
            preflight_only=plan.preflight_only is not None,
        ),
        failure_class=diagnosis.failure_class if diagnosis else None,
        exit_code=run.exit_code,
        message=diagnosis.message if diagnosis else None,
        hint=diagnosis.hint if diagnosis else None,
        notes=tuple(run.notes),
        steps=len(run.measurements.steps),
        weight_syncs=run.measurements.weight_syncs,
        metrics=run.measurements.summary(),
        checks=checks,
        reproduce=plan.reproduce,
    )


def _keep(run: _Run, result: Record) -> None:
    """Write what remains of the run. On a full disk the reserve makes room for the record, which matters most."""
    (run.directory / _RESERVE).unlink(missing_ok=True)
    try:
        record.write(result, run.directory)
        run.measurements.write(run.directory / "metrics.jsonl")
    except OSError as error:
        run.terminal.finish()
        run.terminal.line(report.closing(result, run.directory, tail=run.console.tail()))
        raise _unwritable(error, run.directory) from error


def _cancelled(run: _Run) -> CancelledError:
    return CancelledError(f"cancelled by {run.cancellation.reason} {run.progress.where()}")


def _rollout_failed(error: str) -> ProductError:
    return ProductError(
        f"a rollout server raised, and verl would retry for ever: {error}",
        hint="the log has its traceback; stacks.txt shows who was waiting for it",
    )


def _unwritable(error: OSError, directory: Path) -> SuiteError:
    """Return what a failed system call of the suite's own means for the run."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DeviceError(
            f"no space left on the disk: {error}",
            hint=f"make room on the file system of {directory.parent}; old runs in it can go",
        )
    return SuiteError(f"the run could not be carried out: {error}", hint=f"see that {directory.parent} can be written")
