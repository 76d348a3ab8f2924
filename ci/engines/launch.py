"""Start a program that dies with the suite: ``python launch.py OWNER_PID PROGRAM ARGUMENT...``.

Run as a file, with nothing but the standard library. A preexec_fn would do the same inside a process that has threads,
where Python calls it unsafe (https://docs.python.org/3/library/subprocess.html#popen-constructor).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_EXIT_NOT_FOUND = 127
_EXIT_NOT_EXECUTABLE = 126


def main(owner: int, argv: list[str]) -> int:
    """Ask the kernel for SIGKILL when the owner's starting thread ends, then become the program."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != owner:  # it died before the kernel was asked
        return 128 + int(signal.SIGKILL)
    # Python ignores SIGPIPE and hands that on; the program should start as from a shell.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # the plan's argv, as it is
    except FileNotFoundError as error:
        # Also raised for a script whose first line names a missing interpreter.
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr)
        return _EXIT_NOT_FOUND
    except OSError as error:
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr)
        return _EXIT_NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
