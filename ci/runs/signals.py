"""One cancellation for SIGINT, SIGTERM and SIGHUP, in the process that nox runs in.

GitHub sends SIGINT, SIGTERM 7.5 s later and SIGKILL 2.5 s after that; Python's own reactions (KeyboardInterrupt at any
place, or the end of the process without any ``finally``) would leave the run's processes behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from ci.errors import SuiteError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Cancellation:
    """Asked for once, seen at once: `wait` returns as soon as it is requested.

    Built on a pipe: a signal handler must not take the lock of a threading.Event that the interrupted code may hold.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._reason: str | None = None

    @property
    def requested(self) -> bool:
        """Return whether the run is to be cancelled."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Return what asked first, such as ``SIGINT``."""
        return self._reason

    def request(self, reason: str) -> None:
        """Ask for the run's end; asking again changes nothing."""
        if self._reason is None:
            self._reason = reason
            os.write(self._writer, b"!")

    def wait(self, timeout_s: float) -> bool:
        """Sleep, but no longer than until the cancellation is requested; return whether it is."""
        select.select([self._reader], [], [], timeout_s)
        return self.requested

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._reader)
        os.close(self._writer)


@contextlib.contextmanager
def cancel_on_signals() -> Iterator[Cancellation]:
    """Turn the signals that end a run into one cancellation; the handlers before are put back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        raise SuiteError("a run has to be started in the main thread: Python delivers signals to no other")
    cancellation = Cancellation()

    def handle(number: int, _frame: FrameType | None) -> None:
        cancellation.request(signal.Signals(number).name)

    before = {}
    try:
        for number in _SIGNALS:
            # nohup and shells without job control ignore signals on purpose; that is kept, but for Ctrl-C and SIGTERM.
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            before[number] = signal.signal(number, handle)
        yield cancellation
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        cancellation.close()
