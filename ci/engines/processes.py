"""Every process of a run, and only those: found by the mark in their environment and by descent, and ended.

Ray's daemons leave the process group and the session, so neither finds them. The mark is inherited by every child; a
child that clears its environment is still found as a descendant, or, once its parent is gone, as one the suite adopted.
Only a child that clears its environment and leaves its parents is lost, and only when the suite itself got SIGKILL.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil

from ci.engines.engine import KILL_GRACE_S, TERMINATE_GRACE_S
from ci.engines.owner import OWNER_VARIABLE, RUN_VARIABLE, Owner

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_POLL_S = 0.05
_RUN = RUN_VARIABLE.encode()
_OWNER = OWNER_VARIABLE.encode()


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make orphaned descendants children of this process instead of init's, for as long as the context lasts."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot adopt orphaned processes: {os.strerror(number)}")
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def of_run(run_id: str, *, also: Iterable[psutil.Process] = ()) -> set[psutil.Process]:
    """Return the processes marked with a run's id and those in `also`, with all their descendants."""
    marked = (process for process, environment in _environments() if environment.get(_RUN) == run_id.encode())
    return _with_descendants((*marked, *also))


def of_dead_owners() -> dict[str, set[psutil.Process]]:
    """Return the processes whose owner is dead, by run id, with all their descendants."""
    found: dict[str, set[psutil.Process]] = {}
    for process, environment in _environments():
        text = environment.get(_OWNER)
        owner = None if text is None else Owner.parse(os.fsdecode(text))
        if owner is not None and owner.state == "dead":
            run = os.fsdecode(environment.get(_RUN, b"?"))
            found.setdefault(run, set()).update(_with_descendants({process}))
    return found


def children() -> set[psutil.Process]:
    """Return the children of this process, zombies included."""
    return set(psutil.Process().children())


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return those that still run; a zombie does not."""
    return {process for process in processes if _lives(process)}


def end(
    find: Callable[[], set[psutil.Process]], *, between: Callable[[], object] = lambda: None
) -> set[psutil.Process]:
    """End what `find` returns until it returns nothing that lives: SIGTERM, a grace, SIGKILL; return what survived.

    It is asked again and again because a process may fork while the others are ended; `between` runs after each round.
    """
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + TERMINATE_GRACE_S
    while (alive := living(find())) and time.monotonic() < deadline:
        for process in alive - asked:
            _send(process, signal.SIGTERM)
        asked |= alive
        time.sleep(_POLL_S)
        between()
    deadline = time.monotonic() + KILL_GRACE_S
    while (alive := living(find())) and time.monotonic() < deadline:
        for process in alive:
            _send(process, signal.SIGKILL)
        time.sleep(_POLL_S)
        between()
    between()
    return alive


def reap(before: set[psutil.Process], own: set[int]) -> None:
    """Collect adopted children that have ended, so that no zombie stays.

    Those that were there `before`, and the `own` pids, whose exit codes somebody waits for, are left alone.
    """
    for process in children() - before:
        if process.pid not in own and not _lives(process):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def describe(process: psutil.Process) -> str:
    """Return the pid and the command line, as far as they can be read."""
    try:
        command = " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        command = "?"
    return f"{process.pid} {command[:200]}"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    # psutil compares the start time first, so a pid that was used again is not hit.
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(number)


def _with_descendants(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    parents: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        parents.setdefault(process.info["ppid"], []).append(process)
    found: set[psutil.Process] = set()
    queue = list(processes)
    while queue:
        process = queue.pop()
        if process not in found and process.pid != os.getpid():
            found.add(process)
            queue.extend(parents.get(process.pid, ()))
    return found


def _environments() -> Iterator[tuple[psutil.Process, dict[bytes, bytes]]]:
    for pid in psutil.pids():
        if pid == os.getpid():
            continue
        try:
            # Not psutil's environ(): it decodes everything, and thousands of processes are only looked at.
            raw = Path(f"/proc/{pid}/environ").read_bytes()
            if _OWNER in raw:
                yield psutil.Process(pid), dict(_pairs(raw))
        except (OSError, psutil.NoSuchProcess):
            continue


def _pairs(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    for entry in raw.split(b"\0"):
        key, separator, value = entry.partition(b"=")
        if separator:
            yield key, value
