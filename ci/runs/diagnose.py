"""What a failed run means: whose fault it is, one clear line, and what to do about it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.errors import FailureClass
from ci.runs.symptoms import SYMPTOMS, Symptom
from ci.runs.verdict import CheckResult

_LAST_BYTES = 4 << 20
_SEARCHED_CHARACTERS = 4000
_SHOWN_CHARACTERS = 500
_SIGNAL_BASE = 128
"""A shell, and Docker, report signal N as exit code 128 + N."""
_FROM_OUTSIDE = (
    "somebody sent SIGKILL, most often the kernel for want of memory: `dmesg` and the container's limit tell"
)
_CRASHED = "native code crashed: PYTHONFAULTHANDLER=1 shows where; a bus error can mean that shared memory is full"
_SIGNAL_HINTS = {signal.SIGKILL: _FROM_OUTSIDE} | dict.fromkeys(
    (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT), _CRASHED
)
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(r"^(?:\([^()]*\bpid=\d+(?:, ip=[^)]*)?\) ?|(?:ERROR|WARNING|INFO) [\d-]+ [\d:]+ \[[^\]]*\] ?)+")
"""What Ray and vLLM put in front of a line."""
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Failure|NotFound)\b.*")
_WRAPPERS = re.compile(
    r"^(?:ray\.exceptions\.)?(?:RayTaskError|RayActorError|ActorDiedError|ActorUnavailableError|WorkerCrashedError)\b"
    r"|Engine core initialization failed\. See root cause above"
    r"|^RuntimeError: Engine process failed to start"
)
"""Exceptions that only report that another process raised one."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Why a run did not pass."""

    failure_class: FailureClass
    message: str
    hint: str | None = None


def last_part(path: Path) -> list[str]:
    """Return the last lines of a log, without colours and prefixes, at most 4 MiB of them."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LAST_BYTES))
        text = file.read().decode(errors="replace")
    # A progress bar rewrites its line: what a reader sees is what follows the last carriage return.
    return [clean(line) for line in text.split("\n")]


def clean(line: str) -> str:
    """Return a log line without colours, prefixes, and what a carriage return has overwritten."""
    plain = _COLOUR.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip()
    return _PREFIX.sub("", plain)[:_SEARCHED_CHARACTERS]


def failed_command(name: str, exit_code: int, lines: Sequence[str]) -> Diagnosis:
    """Return what the end of the log says about a command that ended with an error."""
    what = f"{name} ended with {_ending(exit_code)}"
    causes = root_causes(lines)
    # Lines outside tracebacks may be warnings of something harmless, so they count only where there is nothing better.
    found = _first_symptom(causes or lines)
    if found is not None:
        symptom, line = found
        return Diagnosis(failure_class=symptom.failure_class, message=f"{what}: {_short(line)}", hint=symptom.remedy)
    last = causes[0] if causes else next((line for line in reversed(lines) if line.strip()), "it wrote nothing")
    return Diagnosis(failure_class="product", message=f"{what}: {_short(last)}", hint=_signal_hint(exit_code))


def failed_checks(checks: Sequence[CheckResult], *, rollout_error: str | None) -> Diagnosis | None:
    """Return what failed checks mean, None when all passed."""
    failed = [check for check in checks if not check.passed]
    if not failed:
        return None
    if rollout_error is not None:
        return Diagnosis(failure_class="product", message=f"a rollout server raised: {_short(rollout_error)}")
    first = failed[0]
    names = ", ".join(check.name for check in failed)
    return Diagnosis(
        failure_class="check",
        message=f"the trainer ended well, but {len(failed)} of {len(checks)} checks failed ({names}); "
        f"{first.name}: {first.observed}",
        hint="metrics.jsonl has every step's values, events.jsonl the digests of each process",
    )


def root_causes(lines: Sequence[str]) -> list[str]:
    """Return the last lines of all tracebacks, the first one first, without those that only pass another one on.

    Ray repeats a worker's traceback inside its own exception, and verl's driver fails on that one last of all.
    """
    causes = []
    inside = False
    for line in lines:
        if _TRACEBACK in line:
            inside = True
        elif inside and _EXCEPTION.match(line) and not _WRAPPERS.search(line):
            # After Ray's own exception comes the one it passes on, without a new headline.
            inside = False
            causes.append(line)
    return causes


def _first_symptom(lines: Sequence[str]) -> tuple[Symptom, str] | None:
    for symptom in SYMPTOMS:
        for line in lines:
            if symptom.pattern.search(line):
                return symptom, line
    return None


def _ending(exit_code: int) -> str:
    number = _signal(exit_code)
    return f"exit code {exit_code}" if number is None else f"{number.name} (exit code {exit_code})"


def _signal_hint(exit_code: int) -> str | None:
    number = _signal(exit_code)
    return None if number is None else _SIGNAL_HINTS.get(number)


def _signal(exit_code: int) -> signal.Signals | None:
    try:
        return signal.Signals(exit_code - _SIGNAL_BASE)
    except ValueError:
        return None


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
