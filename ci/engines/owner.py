"""Whose a process, a directory or a container is, and whether that owner still lives.

A pid alone is not enough: it is used again, it means another process in another pid namespace, and nothing after a
reboot.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

OWNER_VARIABLE = "VERL_E2E_OWNER"
"""Carried by every process of a run: the owner's text."""
RUN_VARIABLE = "VERL_E2E_RUN"
"""Carried by every process of a run: its id."""

_STAT_STATE = 0
_STAT_START_TIME = 19


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One process of the suite, told apart from every other on this and any machine."""

    host: str
    boot: str
    namespace: int
    """Inode of the pid namespace: inside another one the same pid is another process."""
    process: int
    started: int
    """Clock ticks after the boot."""

    @classmethod
    def current(cls) -> Self:
        """Return this process."""
        process = os.getpid()
        started = _start_time(process)
        if started is None:
            message = f"/proc/{process}/stat cannot be read: the suite needs a Linux with /proc mounted"
            raise OSError(message)
        return cls(host=socket.gethostname(), boot=_boot(), namespace=_namespace(), process=process, started=started)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the owner that `text` stands for, None when it is none of ours."""
        match text.split("/"):
            case [host, boot, namespace, process, started]:
                try:
                    return cls(
                        host=host, boot=boot, namespace=int(namespace), process=int(process), started=int(started)
                    )
                except ValueError:
                    return None
            case _:
                return None

    @property
    def text(self) -> str:
        """Return one word that `parse` takes."""
        return f"{self.host}/{self.boot}/{self.namespace}/{self.process}/{self.started}"

    @property
    def state(self) -> Literal["living", "dead", "unknown"]:
        """Say whether the owner lives; ``unknown`` for one of another machine or pid namespace, which is left alone."""
        if self.host != socket.gethostname() or self.namespace != _namespace():
            return "unknown"
        if self.boot != _boot():
            return "dead"
        return "living" if _start_time(self.process) == self.started else "dead"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_time(process: int) -> int | None:
    """Return when a process started, None when it is gone or only a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STAT_STATE] in {"Z", "X"} else int(fields[_STAT_START_TIME])
