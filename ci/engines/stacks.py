"""The Python stacks of a run's processes, through py-spy: all that anyone will ever learn of a hang."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from ci.engines.processes import describe, living

_PER_PROCESS_S = 15.0
_ALL_S = 60.0
_AT_ONCE = 4

Fallback = Callable[[psutil.Process], str]
"""Another way to the stack of a process that cannot be read from here; raises OSError with the reason."""


def of(processes: Iterable[psutil.Process], *, stop: Callable[[], bool], fallback: Fallback | None = None) -> str:
    """Return one section for each process: its stacks, or why there are none."""
    deadline = time.monotonic() + _ALL_S
    ordered = sorted(living(processes), key=lambda process: process.pid)

    def section(process: psutil.Process) -> str:
        title = f"=== {describe(process)}"
        if stop() or time.monotonic() > deadline:
            return f"{title}\nnot read: there was no time left"
        if not _runs_python(process):
            return f"{title}\nnot a Python process, {_kernel_state(process)}"
        try:
            return f"{title}\n{_stack(process, fallback)}"
        except OSError as error:
            return f"{title}\nno stack: {error}, {_kernel_state(process)}"

    # py-spy stops one process while it reads it; a few at once keep the snapshots close in time.
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        sections = list(pool.map(section, ordered))
    return "\n\n".join(sections) + "\n" if sections else "no process of the run was there any more\n"


def executable() -> str | None:
    """Return where py-spy is: beside this interpreter, or on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _stack(process: psutil.Process, fallback: Fallback | None) -> str:
    program = executable()
    if program is None:
        message = "py-spy is not installed beside the suite: pip install py-spy"
        raise OSError(message)
    command = (program, "dump", "--pid", str(process.pid))
    try:
        return _output(command)
    except OSError as first:
        if fallback is not None:
            return fallback(process)
        # Ubuntu lets only an ancestor read a process (kernel.yama.ptrace_scope=1); CI machines mostly have a free sudo.
        if (sudo := shutil.which("sudo")) is None:
            raise
        try:
            return _output((sudo, "--non-interactive", *command))
        except OSError:
            raise first from None


def _output(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_PER_PROCESS_S, check=False, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        message = f"py-spy gave none within {_PER_PROCESS_S:.0f} s"
        raise OSError(message) from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"py-spy ended with exit code {done.returncode}")
    return done.stdout.rstrip()


def _runs_python(process: psutil.Process) -> bool:
    try:
        # Ray renames its workers ("ray::WorkerDict"), so the executable counts, not the title.
        return "python" in Path(process.exe()).name
    except psutil.Error:
        return True  # py-spy will say why it cannot be read


def _kernel_state(process: psutil.Process) -> str:
    try:
        return f"state {process.status()}, {process.num_threads()} threads"
    except psutil.Error:
        return "gone"
