from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins.conftest import python

Observe = Callable[[str], list[dict[str, Any]]]


def test_metrics_are_plain_floats_and_nothing_else(observe: Observe) -> None:
    (event,) = observe(
        """
        import verl
        from verl.utils.tracking import Tracking
        class Scalar:  # numpy's and torch's scalars offer item()
            def item(self):
                return 3
        class Vector:
            def item(self):
                raise ValueError("more than one element")
        Tracking().log(data={"a": 1, "b": Scalar(), "c": Vector(), "d": "text", "e": float("nan"), "f": -float("inf"),
                             "g": None, "h": True}, step=7)
        assert Tracking.logged[0][1] == 7, "verl's own method still runs"
        """
    )
    assert event["event"] == "metrics"
    assert event["step"] == 7
    assert math.isnan(event["metrics"].pop("e"))
    assert event["metrics"] == {"a": 1.0, "b": 3.0, "f": -math.inf, "h": 1.0}


def test_metrics_are_seen_however_log_is_called(observe: Observe) -> None:
    events = observe(
        """
        import verl
        from verl.utils.tracking import Tracking
        Tracking().log({"a": 1}, 1)
        Tracking().log({"a": 2}, step=2, backend=["console"])
        Tracking().log(data={}, step=3)
        """
    )
    assert [(event["step"], event["metrics"]) for event in events] == [(1, {"a": 1.0}), (2, {"a": 2.0}), (3, {})]


def test_stages_come_in_the_order_of_a_run(observe: Observe) -> None:
    events = observe(
        """
        import verl
        import verl.trainer.constants_ppo
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer
        from verl.workers.rollout.llm_server import LLMServerManager
        assert PPOTrainer().init() == "initialised"
        assert LLMServerManager(config=5).config == 5
        assert PPOTrainer().fit("manager") == "manager"
        """
    )
    assert [event["name"] for event in events] == ["ray", "models", "rollout", "fit"]


_FAILING_ROLLOUT = """
import asyncio, time, verl, verl_observer.progress
from verl.workers.rollout.llm_server import LLMServerClient
verl_observer.progress.GRACE_S = {grace}
assert asyncio.run(LLMServerClient().generate("r", prompt_ids=[5])) == [5, 1]
for _ in range(3):
    try:
        asyncio.run(LLMServerClient().generate("r", prompt_ids=[]))
    except ValueError:
        continue
    raise SystemExit("the error was swallowed")
time.sleep(0.5)
"""


def test_a_rollout_error_is_reported_once_and_still_raised(observe: Observe) -> None:
    events = observe(_FAILING_ROLLOUT.format(grace=0.1))
    assert [(event["event"], event["error"]) for event in events] == [("rollout_error", "ValueError: an empty prompt")]


def test_a_rollout_error_of_a_process_that_ends_is_not_reported(observe: Observe) -> None:
    """The servers of a run that ended well die before the processes that still ask them."""
    assert observe(_FAILING_ROLLOUT.format(grace=60)) == []


@pytest.mark.parametrize(
    ("module", "text", "what"),
    [
        ("verl/utils/tracking.py", "class Journal: ...", "metrics"),
        ("verl/checkpoint_engine/base.py", "CheckpointEngineRegistry = None", "weights of checkpoint engines"),
        (
            "verl/workers/rollout/base.py",
            "get_rollout_class = lambda: None\ndel get_rollout_class",
            "weights of colocated",
        ),
        ("verl/trainer/ppo/v1/trainer_base.py", "class PPOTrainer: ...", "stages models and fit"),
        ("verl/workers/rollout/llm_server.py", "", "stage rollout and rollout errors"),
    ],
)
def test_moved_internals_are_reported(observe: Observe, verl: Path, module: str, text: str, what: str) -> None:
    (verl / module).write_text(text, encoding="utf-8")
    (verl / "verl/workers/rollout/__init__.py").write_text("from . import base", encoding="utf-8")
    name = module.removesuffix(".py").replace("/", ".")
    (event,) = observe(f"import verl, {name}")
    assert event["event"] == "observer_error"
    assert what in event["what"]


def test_a_missing_module_is_reported_though_nothing_imports_it(observe: Observe, verl: Path) -> None:
    (verl / "verl/utils/tracking.py").unlink()
    (event,) = observe("import verl")
    assert (event["event"], event["what"]) == ("observer_error", "metrics")
    assert "verl.utils.tracking" in event["error"]


def test_a_problem_is_one_line_on_standard_error(verl: Path) -> None:
    (verl / "verl/utils/tracking.py").unlink()
    done = python("import verl", folder=verl, events=verl / "events.jsonl")
    assert done.stderr.splitlines() == [
        "[verl_observer] cannot observe metrics: ModuleNotFoundError: No module named 'verl.utils.tracking'"
    ]


def test_nothing_of_verl_is_imported_or_changed_without_a_reader(verl: Path) -> None:
    code = """
        import sys, verl
        assert not [name for name in sys.modules if name.startswith("verl.")]
        from verl.utils.tracking import Tracking
        assert not hasattr(Tracking.log, "__wrapped__")
    """
    assert python(code, folder=verl).stderr == ""


def test_loading_the_observer_imports_nothing_heavy(verl: Path) -> None:
    code = """
        import sys, verl
        heavy = {"torch", "numpy", "ray"} & set(sys.modules)
        assert not heavy, heavy
        assert not [name for name in sys.modules if name.startswith("verl.")]
    """
    python(code, folder=verl, events=verl / "events.jsonl")


def test_importing_a_plugin_before_verl_works_too(observe: Observe) -> None:
    """Ray imports the class of an actor, and with it the plug-in, before anything else."""
    (event,) = observe(
        """
        import verl_observer, verl
        from verl.utils.tracking import Tracking
        Tracking().log({"a": 1}, 1)
        """
    )
    assert event["event"] == "metrics"
