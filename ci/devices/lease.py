"""Exclusive holds on accelerators of this machine, which the kernel lets go when their holder dies, however it dies.

A lock file per device, shared by all users of the machine: driver processes on a device are seen too late, since a run
takes a minute from its start to its first allocation.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ci.errors import DeviceError
from ci.scenarios.model import Accelerator

_STICKY = stat.S_ISVTX | stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
_READ_WRITE_BY_ALL = 0o666


@contextlib.contextmanager
def lease(
    kind: Accelerator, free_ids: Iterable[int], count: int, holder: str, *, directory: Path | None = None
) -> Iterator[tuple[int, ...]]:
    """Hold `count` of the devices for as long as the context lasts, and return their ids, the lowest first.

    ``holder`` is what others read when they want the same devices, such as a run's scenario. ``directory`` is for locks
    that nobody else shares.

    Raises:
        DeviceError: fewer are to be had; it says who holds the others.
    """
    folder = directory or _shared_directory()
    candidates = sorted(set(free_ids))
    held: list[int] = []
    others: list[str] = []
    with contextlib.ExitStack() as stack:
        for device in candidates:
            if len(held) == count:
                break
            path = folder / f"{kind}-{device}.lock"
            if (descriptor := _locked(path)) is None:
                others.append(f"{kind} {device} is held by {_holder(path)}")
                continue
            stack.callback(_release, descriptor)
            _describe(descriptor, holder)
            held.append(device)
        if len(held) < count:
            what = (
                f"{count} {kind} devices are needed, {len(candidates)} are free of processes, {len(held)} of any lease"
            )
            raise DeviceError(
                "; ".join((what, *others)),
                hint="wait for the runs that hold them, or ask for fewer devices (NUM_GPUS)",
            )
        yield tuple(held)


def _shared_directory() -> Path:
    """Return the machine's folder for locks: the same for every user, so it depends on no variable of theirs."""
    for parent in (Path("/var/lock"), Path("/run/lock"), Path(tempfile.gettempdir())):
        folder = parent / "verl-e2e"
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(PermissionError):  # made by another user, who gave everybody access
                folder.chmod(_STICKY)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    raise DeviceError(
        "no folder for the locks that keep runs off each other's devices can be written",
        hint="make /var/lock/verl-e2e writable for all (mode 1777)",
    )


def _locked(path: Path) -> int | None:
    """Return an open descriptor that has the lock, None when another has it.

    The file stays when the lock goes: removing it could leave two processes with a lock each on two files of one name.
    """
    # Not O_CREAT on a file that is there: fs.protected_regular forbids it for another user's file in a sticky folder.
    with contextlib.suppress(FileExistsError):
        created = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _READ_WRITE_BY_ALL)
        os.fchmod(created, _READ_WRITE_BY_ALL)  # whatever the caller's umask says
        os.close(created)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _describe(descriptor: int, holder: str) -> None:
    content = {"pid": os.getpid(), "user": _user(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(content | {"run": holder}).encode(), 0)


def _release(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.close(descriptor)


def _holder(path: Path) -> str:
    try:
        content = json.loads(path.read_bytes())
        return f"{content['run']} (pid {content['pid']}, user {content['user']}, since {content['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "a run that has just started"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
