"""What happens between a plan and its first command: the environment is made, the plan examined, devices are leased."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ci.runs.record import VerlRecord


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What the preparation found out, and what it holds until the run is over."""

    configuration: str | None
    """verl's configuration as composed, in YAML."""
    verl: VerlRecord
    devices: tuple[int, ...] = ()
    """Ids of the accelerators leased for the run."""
    notes: tuple[str, ...] = ()


class Stage(Protocol):
    """What a preparation may do with the run it prepares."""

    def say(self, text: str) -> None:
        """Print a line above the progress."""

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run a command on the host as a part of the run: logged, limited, cancelled with it; raise when it fails."""


Prepare = Callable[[Stage], AbstractContextManager[Prepared]]
"""Prepare a run. What it raises as a SuiteError ends the run, with a record; what it holds is let go after the run."""
