"""The log of a run: to ``runs/ID/console.log`` and to the terminal, in chunks, however much it is."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

_TAIL_BYTES = 64 * 1024
_TAIL_LINES = 60
_LINE_CHARACTERS = 2000
_PIECE_BYTES = select.PIPE_BUF
"""A pipe that `select` calls writable takes this much without blocking."""
_LOCK_S = 0.2
_ERASE_LINE = b"\r\x1b[2K"


class Terminal:
    """The caller's standard output, shared by the log and by lines about the run.

    A terminal that goes away, is stopped with Ctrl-S or is a pipe nobody reads must neither end the run nor keep it
    from ending.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._descriptor = _descriptor(stream)
        self.interactive = self._descriptor is not None and os.isatty(self._descriptor)
        self._broken = False
        self._closing = threading.Event()
        self._at_line_start = True
        self._status = b""
        self._waiting: list[str] = []

    def log(self, chunk: bytes) -> None:
        """Write a piece of the run's log."""
        with self._lock:
            self._hide_status()
            if self._waiting and (end := chunk.find(b"\n") + 1):
                self._write(chunk[:end])
                self._write_waiting()
                chunk = chunk[end:]
            if chunk:
                self._write(chunk)
                self._at_line_start = chunk.endswith(b"\n")
            self._show_status()

    def line(self, text: str) -> None:
        """Write a line of the suite's own; held back until the log is at the start of a line."""
        self._waiting.append(text)
        with self._unless_blocked() as free:
            if free and self._at_line_start:
                self._hide_status()
                self._write_waiting()
                self._show_status()

    def status(self, text: str) -> None:
        """Replace the line that stays below the log; only an interactive terminal has one."""
        with self._unless_blocked() as free:
            if free:
                self._hide_status()
                self._status = text.encode()
                self._show_status()

    def finish(self) -> None:
        """Take the status line away, and write what was held back."""
        with self._unless_blocked() as free:
            if not free:
                return
            self._hide_status()
            self._status = b""
            if not self._at_line_start:
                self._write(b"\n")
                self._at_line_start = True
            self._write_waiting()

    def give_up(self) -> None:
        """Stop writing to a reader that takes nothing."""
        self._closing.set()

    @contextlib.contextmanager
    def _unless_blocked(self) -> Iterator[bool]:
        """Take the lock, but not from a log that waits for its reader: the run has to be watched meanwhile."""
        free = self._lock.acquire(timeout=_LOCK_S)
        try:
            yield free
        finally:
            if free:
                self._lock.release()

    def _write_waiting(self) -> None:
        for text in self._waiting:
            self._write(text.encode(errors="replace") + b"\n")
        self._waiting.clear()
        self._at_line_start = True

    def _hide_status(self) -> None:
        if self._status and self.interactive and self._at_line_start:
            self._write(_ERASE_LINE)

    def _show_status(self) -> None:
        if self._status and self.interactive and self._at_line_start:
            self._write(self._status)

    def _write(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            if self._descriptor is None:
                self._stream.write(data.decode(errors="replace"))
                self._stream.flush()
            else:
                self._stream.flush()
                self._write_descriptor(self._descriptor, memoryview(data))
        except OSError as error:
            self._broken = True
            if self._descriptor is not None and error.errno in {errno.EPIPE, errno.EIO}:
                # Otherwise the interpreter's own flush at exit fails and turns exit code 0 into 120.
                # https://docs.python.org/3/library/signal.html#note-on-sigpipe
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, self._descriptor)
                os.close(silent)

    def _write_descriptor(self, descriptor: int, data: memoryview) -> None:
        while data and not self._closing.is_set():
            _, writable, _ = select.select([], [descriptor], [], 0.2)
            if writable:
                try:
                    data = data[os.write(descriptor, data[:_PIECE_BYTES]) :]
                except BlockingIOError:  # other programs may have made a shared descriptor non-blocking
                    continue


class Console:
    """Takes the chunks of one run's output, in a thread, and keeps the end of them."""

    def __init__(self, path: Path, terminal: Terminal) -> None:
        self._file = path.open("ab", buffering=0)
        self._terminal = terminal
        self._tail = b""
        self.received = 0
        """Bytes so far: grows while the log moves."""
        self.error: Exception | None = None
        """What kept the log from being written or read; the output is still taken, so that the run does not block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def follow(self, chunks: Iterator[bytes]) -> threading.Thread:
        """Start taking chunks, and return the thread that does."""
        thread = threading.Thread(target=self._take, args=(chunks,), name="console", daemon=True)
        thread.start()
        return thread

    def tail(self) -> tuple[str, ...]:
        """Return the last lines, cut to a readable length and to what a terminal shows after a carriage return."""
        text = self._tail.decode(errors="replace").rstrip()
        lines = [line.rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS] for line in text.split("\n")]
        return tuple(lines[-_TAIL_LINES:]) if text else ()

    def _take(self, chunks: Iterator[bytes]) -> None:
        try:
            for chunk in chunks:
                self.received += len(chunk)
                self._tail = (self._tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
                if self.error is None:
                    self._store(chunk)
                self._terminal.log(chunk)
        except (OSError, ValueError) as error:
            # ValueError: the other side was closed, because the run is over and its output was given up.
            self.error = self.error or error

    def _store(self, chunk: bytes) -> None:
        data = memoryview(chunk)
        try:
            while data:
                data = data[self._file.write(data) :]
        except (OSError, ValueError) as error:
            self.error = error


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
