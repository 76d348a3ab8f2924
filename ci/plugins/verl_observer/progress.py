"""How far a run has come, and errors that verl itself does not stop at."""

import functools
import threading
from types import ModuleType
from typing import Any

from verl_observer.events import emit, emit_problem
from verl_observer.observation import before_call, observe

GRACE_S = 5.0
"""How long a rollout error waits: when a run has ended well, its servers die under requests that nobody needs any more,
and the process that sees that dies with them."""
_MOST_ERRORS = 5
"""Texts of rollout errors reported by one process; a text may hold a request's number and so always be new."""
_reported_errors: set[str] = set()


def install() -> None:
    """Watch the trainer's entry, its stages and its requests to the rollout."""
    observe("verl.trainer.constants_ppo", "stage ray", lambda _module: emit("stage", name="ray"))
    observe("verl.trainer.ppo.v1.trainer_base", "stages models and fit", _watch_trainer)
    observe("verl.workers.rollout.llm_server", "stage rollout and rollout errors", _watch_rollout)


def _watch_trainer(module: ModuleType) -> None:
    before_call(module.PPOTrainer, "init", lambda *_args, **_kwargs: emit("stage", name="models"))
    before_call(module.PPOTrainer, "fit", lambda *_args, **_kwargs: emit("stage", name="fit"))


def _watch_rollout(module: ModuleType) -> None:
    before_call(module.LLMServerManager, "__init__", lambda *_args, **_kwargs: emit("stage", name="rollout"))
    client = module.LLMServerClient
    generate = client.generate

    @functools.wraps(generate)
    async def observed(*args: Any, **kwargs: Any) -> Any:
        try:
            return await generate(*args, **kwargs)
        except Exception as error:
            _report_later(error)
            raise

    client.generate = observed


def _report_later(error: Exception) -> None:
    """Report an error of the rollout once: verl's agent loop gives the prompt up and asks for another, for ever."""
    try:
        cause = getattr(error, "cause", None) or error  # Ray wraps what a server raised
        text = f"{type(cause).__name__}: {cause}"
        if text in _reported_errors or len(_reported_errors) >= _MOST_ERRORS:
            return
        _reported_errors.add(text)
        timer = threading.Timer(GRACE_S, emit, ("rollout_error",), {"error": text})
        timer.daemon = True
        timer.start()
    except Exception as problem:  # noqa: BLE001 - the rollout's own error is the one to raise
        emit_problem("rollout errors", problem)
