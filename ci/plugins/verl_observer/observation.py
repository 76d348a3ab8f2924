"""What all observers share: they attach themselves when verl imports a module, and a failure to attach is reported."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from verl_observer.events import emit_problem
from verl_observer.importing import Hook, after_import


def observe(module_name: str, what: str, attach: Hook) -> None:
    """Attach an observer to a module of verl once it is imported; report it when verl has moved what it needs."""

    def attach_or_report(module: ModuleType) -> None:
        try:
            attach(module)
        except Exception as error:  # noqa: BLE001 - whatever has moved in verl, the run must go on
            emit_problem(what, error)

    try:
        after_import(module_name, attach_or_report)
    except ModuleNotFoundError as error:
        emit_problem(what, error)


def before_call(owner: type, method_name: str, react: Callable[..., None]) -> None:
    """Let ``react`` see the arguments of each call of a method, before the method runs."""
    method = vars(owner)[method_name]

    @functools.wraps(method)
    def observed(*args: Any, **kwargs: Any) -> Any:
        react(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(owner, method_name, observed)
