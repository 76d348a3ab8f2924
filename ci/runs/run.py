"""A run while it lasts: what its stages share and find out."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path

from ci.errors import CancelledError, DeviceError, SuiteError
from ci.plan import Plan
from ci.runs.console import Console, Terminal
from ci.runs.diagnose import Diagnosis
from ci.runs.events import EventFile
from ci.runs.metrics import Measurements
from ci.runs.preparation import Prepared
from ci.runs.progress import Progress
from ci.runs.signals import Cancellation


@dataclass(kw_only=True)
class Run:
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
    last_lines: tuple[str, ...] = ()
    """Of the log when the suite ended the run: what its processes write while they are ended explains nothing."""

    def tail(self) -> tuple[str, ...]:
        """Return the lines that a report shows."""
        return self.last_lines or self.console.tail()


def cancelled(run: Run) -> CancelledError:
    """Return the error that ends a run which is not wanted any more."""
    return CancelledError(f"cancelled by {run.cancellation.reason} {run.progress.where()}")


def unwritable(error: OSError, directory: Path) -> SuiteError:
    """Return what a failed system call of the suite's own means for the run."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DeviceError(
            f"no space left on the disk: {error}",
            hint=f"make room on the file system of {directory.parent}; old runs in it can go",
        )
    return SuiteError(f"the run could not be carried out: {error}", hint=f"see that {directory.parent} can be written")
