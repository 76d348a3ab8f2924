"""Which weights are looked at, and that they pass unchanged; `WeightDigest` itself needs torch (tests/e2e)."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Observe = Callable[[str], list[dict[str, Any]]]

_PRELUDE = """
import asyncio, os, sys, types
digest = types.ModuleType("verl_observer.digest")  # a digest that needs no torch
class WeightDigest:
    def __init__(self):
        self.seen = {}
    def add(self, name, tensor):
        if tensor is None:
            raise TypeError("no tensor")
        self.seen[name] = tensor
    tensors = property(lambda self: len(self.seen))
    def hexdigest(self):
        return str(sorted(self.seen.items()))
digest.WeightDigest = WeightDigest
sys.modules["verl_observer.digest"] = digest
import verl
from verl.checkpoint_engine import base
from verl.workers.rollout import base as rollouts, get_rollout_class
WEIGHTS = [("a", 1), ("b", 2)]
got = []
class Engine:
    def __init__(self, is_master=False):
        self.rank = 0 if is_master else 3
    async def send_weights(self, weights, global_steps=None):
        got.extend(weights)
        return {"sent": len(got)}
    async def receive_weights(self, global_steps=None):
        for pair in WEIGHTS:
            yield pair
class Delta(Engine):
    wire_format = "delta_flush"
class Adapter:
    async def update_weights(self, weights, global_steps=None, wire_format="named_tensors"):
        if hasattr(weights, "__aiter__"):
            got.extend([pair async for pair in weights])
        else:
            got.extend(weights)
base.ENGINES.update(nccl=Engine, naive=Engine, delta=Delta)
rollouts.CLASSES["vllm"] = Adapter
new = base.CheckpointEngineRegistry.new
"""


@pytest.fixture
def weights(observe: Observe) -> Observe:
    """Run code that hands weights over, and return the facts of each event."""

    def run(code: str) -> list[dict[str, Any]]:
        events = observe(_PRELUDE + textwrap.dedent(code))
        return [{name: value for name, value in event.items() if name not in {"time", "pid"}} for event in events]

    return run


def test_the_master_reports_what_it_sends(weights: Observe) -> None:
    events = weights(
        """
        result = asyncio.run(new("nccl", is_master=True).send_weights(iter(WEIGHTS), global_steps=4))
        assert result == {"sent": 2} and got == WEIGHTS
        """
    )
    expected = {"event": "weights", "side": "trainer", "kind": "checkpoint_engine", "version": 4, "rank": 0}
    assert events == [expected | {"tensors": 2, "digest": "[('a', 1), ('b', 2)]"}]


def test_the_trainers_other_ranks_report_nothing(weights: Observe) -> None:
    assert weights('asyncio.run(new("nccl", is_master=False).send_weights(iter(WEIGHTS), global_steps=4))') == []


def test_a_rollout_rank_reports_what_it_receives_and_its_adapter_does_not_again(weights: Observe) -> None:
    events = weights(
        """
        async def sync():
            stream = new("nccl").receive_weights(global_steps=4)
            await get_rollout_class("vllm")().update_weights(stream, global_steps=4)
        asyncio.run(sync())
        assert got == WEIGHTS
        """
    )
    expected = {"event": "weights", "side": "rollout", "kind": "checkpoint_engine", "version": 4, "rank": 3}
    assert events == [expected | {"tensors": 2, "digest": "[('a', 1), ('b', 2)]"}]


def test_a_colocated_trainer_reports_what_it_hands_over(weights: Observe) -> None:
    events = weights(
        """
        for _ in range(2):  # the class is observed once, however often it is asked for
            asyncio.run(get_rollout_class("vllm")().update_weights(iter(WEIGHTS), global_steps=4))
        os.environ["RANK"] = "1"
        asyncio.run(get_rollout_class("vllm")().update_weights(iter(WEIGHTS), global_steps=4))
        """
    )
    expected = {"event": "weights", "side": "trainer", "kind": "colocated", "version": 4, "rank": 0}
    assert events == 2 * [expected | {"tensors": 2, "digest": "[('a', 1), ('b', 2)]"}]


def test_weights_that_did_not_all_arrive_are_not_reported(weights: Observe) -> None:
    events = weights(
        """
        async def first():
            async for pair in new("nccl").receive_weights(global_steps=4):
                return pair
        assert asyncio.run(first()) == ("a", 1)
        """
    )
    assert events == []


def test_what_cannot_be_digested_passes_and_is_reported(weights: Observe) -> None:
    (event,) = weights(
        """
        asyncio.run(new("nccl", is_master=True).send_weights(iter([("a", None), ("b", None)]), global_steps=4))
        assert got == [("a", None), ("b", None)]
        """
    )
    assert event == {"event": "observer_error", "what": "weight a of version 4", "error": "TypeError: no tensor"}


def test_an_engine_that_sends_no_whole_tensors_is_reported(weights: Observe) -> None:
    (event,) = weights('new("delta", is_master=True)')
    assert event["event"] == "observer_error"
    assert "delta" in event["what"]


def test_the_naive_engine_is_left_alone(weights: Observe, verl: Path) -> None:
    assert weights('assert "send_weights" not in vars(new("naive", is_master=True))') == []
