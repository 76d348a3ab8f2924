"""From a plan to a record: start what it says, watch it, end it, judge it. Whatever happens, there is a record."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ci.engines.engine import Engine, Workspace
from ci.engines.host import HostEngine
from ci.errors import SuiteError, error_for
from ci.plan import Plan
from ci.runs import record, report
from ci.runs.console import Console, Terminal
from ci.runs.diagnose import Diagnosis
from ci.runs.events import EventFile
from ci.runs.judgement import judge
from ci.runs.preparation import Prepare
from ci.runs.progress import Progress
from ci.runs.record import Record
from ci.runs.run import Run, cancelled, unwritable
from ci.runs.signals import Cancellation
from ci.runs.supervision import refuse_drift, run_command, run_commands

_RESERVE = "reserve"
_RESERVE_BYTES = 256 * 1024


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
        raise unwritable(error, directory) from error
    with console:
        run = Run(
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
        result = judge(run, began, time.monotonic() - clock)
        _keep(run, result)
        terminal.finish()
        terminal.line(report.closing(result, directory, tail=run.tail()))
    return result


def _carry_out(run: Run, engine: Engine, prepare: Prepare) -> None:
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
        wrapped = unwritable(error, run.directory)
        run.diagnosis = Diagnosis(failure_class=wrapped.failure_class, message=wrapped.message, hint=wrapped.hint)
    except Exception as error:  # noqa: BLE001  # a fault of the suite is recorded like every other outcome
        with contextlib.suppress(OSError):
            (run.directory / "suite-error.txt").write_text(traceback.format_exc(), encoding="utf-8")
        run.diagnosis = Diagnosis(
            failure_class="suite",
            message=f"the suite itself failed: {type(error).__name__}: {error}",
            hint=f"report it with {run.directory}/suite-error.txt",
        )


def _use(run: Run, engine: Engine, devices: tuple[int, ...]) -> None:
    if run.cancellation.requested:
        raise cancelled(run)
    with contextlib.ExitStack() as stack:
        workspace = stack.enter_context(_opened(run, engine, devices))
        try:
            run.image_digest = workspace.image_digest
            refuse_drift(run, workspace, "a step before the run")
            run_commands(run, workspace)
            refuse_drift(run, workspace, "the run, or a data step of it,")
        finally:
            stack.close()  # what could not be ended is known only now
            run.notes += workspace.notes


@dataclass(frozen=True)
class _Stage:
    """What the preparation may do with the run."""

    run: Run

    def say(self, text: str) -> None:
        """Print a line above the progress."""
        self.run.terminal.line(text)

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run a command on the host as a part of the run; raise when it fails."""
        with _opened(self.run, HostEngine(), ()) as workspace:
            run_command(self.run, workspace, Path(argv[0]).name, tuple(argv), environment)
        if self.run.diagnosis is not None:
            failed, self.run.diagnosis = self.run.diagnosis, None
            raise error_for(failed.failure_class)(failed.message, hint=failed.hint)
        self.run.started = False  # the run itself has not started yet


def _opened(run: Run, engine: Engine, devices: tuple[int, ...]) -> AbstractContextManager[Workspace]:
    return engine.open(
        run.plan, run_id=run.id, directory=run.directory, devices=devices, stop=lambda: run.cancellation.requested
    )


def _describe(run: Run) -> None:
    (run.directory / "plan.json").write_text(run.plan.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (run.directory / "events.jsonl").touch()
    latest = run.directory.parent / "latest"
    temporary = run.directory.parent / f".latest-{run.id}"
    temporary.symlink_to(run.id)
    temporary.replace(latest)


def _keep(run: Run, result: Record) -> None:
    """Write what remains of the run. On a full disk the reserve makes room for the record, which matters most."""
    (run.directory / _RESERVE).unlink(missing_ok=True)
    try:
        record.write(result, run.directory)
        run.measurements.write(run.directory / "metrics.jsonl")
    except OSError as error:
        run.terminal.finish()
        run.terminal.line(report.closing(result, run.directory, tail=run.tail()))
        raise unwritable(error, run.directory) from error
