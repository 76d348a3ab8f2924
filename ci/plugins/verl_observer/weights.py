"""The weights that go through a weight sync, seen on each side of it."""

import functools
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

from verl_observer.events import emit, emit_problem
from verl_observer.observation import observe

_WHOLE_TENSORS = "named_tensors"
"""verl's name for the format in which (name, tensor) pairs go over the wire."""
_received: weakref.WeakSet = weakref.WeakSet()
"""Streams that came out of a checkpoint engine and are already observed there."""


def install() -> None:
    """Watch checkpoint engines (training and rollout apart) and rollout adapters (training and rollout colocated)."""
    observe("verl.checkpoint_engine.base", "weights of checkpoint engines", _watch_checkpoint_engines)
    observe("verl.workers.rollout.base", "weights of colocated rollouts", _watch_adapters)


def emit_weights(digest: Any, **facts: Any) -> None:
    """Report the digest of one side's weights."""
    emit("weights", digest=digest.hexdigest(), tensors=digest.tensors, **facts)


def _watch_checkpoint_engines(module: ModuleType) -> None:
    registry = module.CheckpointEngineRegistry
    create = registry.new

    @functools.wraps(create)
    def new(backend: str, *args: Any, **kwargs: Any) -> Any:
        engine = create(backend, *args, **kwargs)
        if backend == "naive":  # hands a generator over inside one process; `_watch_adapters` sees that one
            return engine
        # The trainer's workers alone say whether they are the master, and only the master's weights leave it.
        if getattr(engine, "wire_format", _WHOLE_TENSORS) != _WHOLE_TENSORS:
            emit_problem(f"weights of checkpoint engine {backend}", "it does not send whole tensors")
        elif kwargs.get("is_master"):
            engine.send_weights = _observed_sending(engine.send_weights)
        elif "is_master" not in kwargs:
            engine.receive_weights = _observed_receiving(engine, engine.receive_weights)
        return engine

    registry.new = staticmethod(new)


def _observed_sending(send: Any) -> Any:
    @functools.wraps(send)
    async def send_weights(weights: Any, global_steps: int | None = None, **kwargs: Any) -> Any:
        watched = _Watched(side="trainer", kind="checkpoint_engine", version=global_steps, rank=0)
        return await send(watched.stream(weights), global_steps=global_steps, **kwargs)

    return send_weights


def _observed_receiving(engine: Any, receive: Any) -> Any:
    @functools.wraps(receive)
    def receive_weights(global_steps: int | None = None, **kwargs: Any) -> Any:
        watched = _Watched(
            side="rollout", kind="checkpoint_engine", version=global_steps, rank=getattr(engine, "rank", None)
        )
        stream = watched.stream(receive(global_steps=global_steps, **kwargs))
        _received.add(stream)
        return stream

    return receive_weights


def _watch_adapters(module: ModuleType) -> None:
    find = module.get_rollout_class
    observed_classes = set()

    @functools.wraps(find)
    def get_rollout_class(*args: Any, **kwargs: Any) -> type:
        adapter_class = find(*args, **kwargs)
        if adapter_class not in observed_classes:
            observed_classes.add(adapter_class)
            adapter_class.update_weights = _observed_update(adapter_class.update_weights)
        return adapter_class

    module.get_rollout_class = get_rollout_class


def _observed_update(update: Any) -> Any:
    @functools.wraps(update)
    async def update_weights(adapter: Any, weights: Any, *args: Any, **kwargs: Any) -> Any:
        # Every rank of the trainer walks through the same whole tensors: one of them is enough to look at.
        comes_from_trainer = weights not in _received and kwargs.get("wire_format", _WHOLE_TENSORS) == _WHOLE_TENSORS
        if comes_from_trainer and os.environ.get("RANK", "0") == "0":
            version = kwargs.get("global_steps")
            weights = _Watched(side="trainer", kind="colocated", version=version, rank=0).stream(weights)
        return await update(adapter, weights, *args, **kwargs)

    return update_weights


class _Watched:
    """Weights on their way: each tensor is passed on untouched, and the digest of all is reported at the end."""

    def __init__(self, **facts: Any) -> None:
        from verl_observer.digest import WeightDigest  # here, since it imports torch

        self._facts = facts
        self._digest = WeightDigest()
        self._broken = False

    def stream(self, weights: Any) -> Any:
        """Return the same weights, as an iterator of the same kind."""
        return self._later(weights) if hasattr(weights, "__aiter__") else self._now(weights)

    def _now(self, weights: Any) -> Iterator:
        for name, tensor in weights:
            self._look(name, tensor)
            yield name, tensor
        self._report()

    async def _later(self, weights: Any) -> AsyncIterator:
        async for name, tensor in weights:
            self._look(name, tensor)
            yield name, tensor
        self._report()

    def _look(self, name: str, tensor: Any) -> None:
        if self._broken:
            return
        try:
            self._digest.add(name, tensor)
        except Exception as error:  # noqa: BLE001 - observing must not end a run
            self._broken = True
            emit_problem(f"weight {name} of version {self._facts['version']}", error)

    def _report(self) -> None:
        if not self._broken:
            emit_weights(self._digest, **self._facts)
