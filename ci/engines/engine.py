"""What every engine offers: a workspace for one run, and in it commands that are started, watched and ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ci.plan import EngineName, Plan

TERMINATE_GRACE_S = 2.0
"""How long processes have after SIGTERM. GitHub kills 10 s after its first signal: all of the ending has to fit."""
KILL_GRACE_S = 2.0
"""How long the kernel has to take processes down after SIGKILL, before they are reported as left over."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program of a run: a data step, or the trainer."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """What this command needs on top of what the engine sets."""
    working_directory: str


class Execution(Protocol):
    """A command that was started."""

    def output(self) -> Iterator[bytes]:
        """Yield standard output and error as they come, until the last process of the command has closed them.

        Blocks, so it is read in a thread of its own.
        """

    def poll(self) -> int | None:
        """Return the exit code, 128 + N for signal N, or None while it runs.

        Raises:
            ImageError: the engine was lost, and the command with it.
        """

    def stacks(self, *, stop: Callable[[], bool]) -> str:
        """Return the Python stacks of every process of the run, and for each that has none the reason.

        ``stop`` is asked between two processes: a cancelled run has no time for stacks.
        """

    def end(self) -> None:
        """End every process the command started, wherever it went: SIGTERM, a short grace, SIGKILL. Safe to repeat."""


class Workspace(Protocol):
    """What one run owns on the machine while it lasts."""

    @property
    def image_digest(self) -> str | None:
        """Return the digest of the image really used, None without a container."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the reader of the run should know: orphans reaped before, processes that could not be ended."""

    def drift(self) -> tuple[str, ...]:
        """Return a line for each package of the image that a job or a command has replaced so far.

        Raises:
            ImageError: it cannot be found out.
        """

    def start(self, command: Command) -> Execution:
        """Start a command; one at a time."""


class Engine(Protocol):
    """A way to start commands."""

    @property
    def name(self) -> EngineName:
        """Return the name that plans and records carry."""

    def open(
        self, plan: Plan, *, run_id: str, directory: Path, devices: tuple[int, ...], stop: Callable[[], bool]
    ) -> AbstractContextManager[Workspace]:
        """Reap what dead owners left, then open a workspace; it leaves nothing behind unless the plan says keep.

        ``directory`` is the run's own folder, ``devices`` the ids it has leased; ``stop`` ends a long preparation,
        such as a pull.
        """
