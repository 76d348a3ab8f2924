"""Every number that verl logs."""

from collections.abc import Mapping
from types import ModuleType

from verl_observer.events import emit, emit_problem
from verl_observer.observation import before_call, observe


def install() -> None:
    """Watch ``verl.utils.tracking.Tracking``, through which all trainers log."""
    observe("verl.utils.tracking", "metrics", _watch_tracking)


def _watch_tracking(module: ModuleType) -> None:
    before_call(module.Tracking, "log", _emit_metrics)


def _emit_metrics(_tracking: object, data: Mapping[str, object], step: int, *_args: object, **_kwargs: object) -> None:
    try:
        numbers = {str(name): number(value) for name, value in data.items()}
        present = {name: value for name, value in numbers.items() if value is not None}
        emit("metrics", step=int(step), metrics=present)
    except Exception as error:  # noqa: BLE001 - observing must not end a run
        emit_problem(f"metrics of step {step}", error)


def number(value: object) -> float | None:
    """Return a number as a plain float, be it Python's, numpy's or torch's; anything else is None."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError):  # more than one element
            return None
    return float(value) if isinstance(value, int | float) else None
