"""Events of a run: JSON lines, appended by many processes at once."""

import json
import os
import sys
import time

EVENTS_VARIABLE = "VERL_E2E_EVENTS"


def enabled() -> bool:
    """Tell whether somebody wants to read events."""
    return bool(os.environ.get(EVENTS_VARIABLE))


def emit(event: str, **facts: object) -> None:
    """Append one event to the file named by ``VERL_E2E_EVENTS``; without the variable, do nothing.

    A line is handed over in one ``write`` to a file opened with ``O_APPEND``, which the kernel keeps whole however
    many processes write. NaN and infinities stand as Python's ``json`` writes and reads them. The run goes on
    when the file cannot be written, since observing must not change the result; standard error then says so.
    """
    path = os.environ.get(EVENTS_VARIABLE)
    if not path:
        return
    line = json.dumps({"time": time.time(), "pid": os.getpid(), "event": event, **facts}) + "\n"
    content = line.encode()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            written = os.write(descriptor, content)
        finally:
            os.close(descriptor)
    except OSError as error:
        say(f"cannot write event {event} to {path}: {error}")
    else:
        if written != len(content):
            say(f"event {event} reached {path} only in part ({written} of {len(content)} bytes): is the disk full?")


def emit_problem(what: str, error: object) -> None:
    """Report that something cannot be observed, as event ``observer_error`` and in one line on standard error."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    emit("observer_error", what=what, error=text)
    say(f"cannot observe {what}: {text}")


def say(message: str) -> None:
    """Print one line to standard error, under the observer's name."""
    print(f"[verl_observer] {' '.join(message.split())}", file=sys.stderr, flush=True)
