"""Every error the suite raises: one class, one failure class and one return code each."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

FailureClass = Literal["product", "check", "config", "image", "device", "network", "timeout", "cancelled", "suite"]

FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)


class SuiteError(Exception):
    """Stop with a message for the reader: what happened, why, and what to do next.

    The base class itself stands for a fault of the suite; the subclasses name whose fault it is otherwise.
    """

    failure_class: ClassVar[FailureClass] = "suite"
    exit_code: ClassVar[int] = (
        70  # EX_SOFTWARE of sysexits.h: nobody should see 1, which is nox's own "a session failed"
    )

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  → {self.hint}"


class ConfigError(SuiteError):
    """Refuse a scenario, knob, option or configuration before anything is started."""

    failure_class = "config"
    exit_code = 2


class ProductError(SuiteError):
    """Report that verl itself failed: the trainer ended with an error, or trained nothing."""

    failure_class = "product"
    exit_code = 10


class CheckError(SuiteError):
    """Report that the trainer ended well, but a check of its metrics did not hold."""

    failure_class = "check"
    exit_code = 11


class ImageError(SuiteError):
    """Report an image that is missing, unpinned, unverified or not what the lock says, or a daemon that is down."""

    failure_class = "image"
    exit_code = 12


class DeviceError(SuiteError):
    """Report devices that are missing, busy, or held by somebody else."""

    failure_class = "device"
    exit_code = 13


class NetworkError(SuiteError):
    """Report an index, registry or hub that could not be reached."""

    failure_class = "network"
    exit_code = 14


class TimeLimitError(SuiteError):
    """Report a run ended by its time limit, or because nothing moved for its stall limit."""

    failure_class = "timeout"
    exit_code = 124  # what timeout(1) returns


class CancelledError(SuiteError):
    """Report a run that the user or the CI system ended."""

    failure_class = "cancelled"
    exit_code = 130  # 128 + SIGINT, as a shell reports it


_BY_FAILURE_CLASS: dict[FailureClass, type[SuiteError]] = {
    error.failure_class: error
    for error in (
        SuiteError,
        ConfigError,
        ProductError,
        CheckError,
        ImageError,
        DeviceError,
        NetworkError,
        TimeLimitError,
        CancelledError,
    )
}


def error_for(failure_class: FailureClass) -> type[SuiteError]:
    """Return the error class that stands for a failure class."""
    return _BY_FAILURE_CLASS[failure_class]


def collected(problems: list[str], *, what: str) -> ConfigError:
    """Return one error that carries every problem found, a line each."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return ConfigError("\n".join((f"{what}: {count}", *(f"  - {problem}" for problem in problems))))
