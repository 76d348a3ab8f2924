from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.preflight.configuration import Composer, as_config
from ci.preflight.problem import Problem
from ci.preflight.registry import read_registry
from ci.preflight.values import value_problems
from ci.verl.source import Source


def problems_of(source: Source, *overrides: str, device: str = "cuda", plugins: tuple[Path, ...] = ()) -> list[Problem]:
    composition = Composer(source=source).compose(overrides)
    assert composition.configuration is not None
    registry = read_registry(source, plugins)
    return list(value_problems(as_config(composition.configuration), registry, source, device=device))


def test_names_are_read_from_the_sources(source: Source) -> None:
    registry = read_registry(source)
    assert registry.names("trainer_mode") == ("separate_async", "sync")
    assert registry.names("strategy") == ("fsdp", "fsdp2", "megatron")
    assert registry.names("strategy", device="npu") == ("fsdp", "fsdp2")
    assert registry.names("adv_estimator") == ("gae", "grpo", "mine")
    assert registry.names("rollout_engine") == registry.names("rollout_adapter") == ("vllm",)
    assert registry.names("checkpoint_engine") == ("naive", "nccl")
    assert registry.names("off_policy_strategy") == ("drop", "wait")
    assert registry.names("kl_penalty") == ("k1", "kl")
    assert registry.names("distillation_loss") == ("k1", "k3")
    assert registry.names("truncation") == ("error", "left", "right")
    assert registry.names("logger") == ("console", "wandb")


def test_the_defaults_are_known_names(source: Source) -> None:
    assert problems_of(source) == []


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("trainer.v1.trainer_mode=seperate_async", "separate_async"),
        ("algorithm.adv_estimator=grop", "grpo"),
        ("actor_rollout_ref.actor.strategy=fdsp2", "fsdp2"),
        ("actor_rollout_ref.rollout.name=vlm", "vllm"),
        ("actor_rollout_ref.rollout.checkpoint_engine.backend=ncll", "nccl"),
        ("reward.reward_manager.name=naiv", "naive"),
        ("trainer.v1.sampler.max_off_policy_strategy=dropp", "drop"),
        ("data.truncation=lef", "left"),
        ("trainer.logger=[console,wandbb]", "wandb"),
    ],
)
def test_a_name_that_nothing_registers_gets_the_nearest(source: Source, override: str, meant: str) -> None:
    (problem,) = problems_of(source, override)
    assert problem.name == override.partition("=")[0]
    assert f"did you mean {meant}?" in problem.hint


def test_a_strategy_has_to_be_registered_for_the_device(source: Source) -> None:
    (problem,) = problems_of(source, "actor_rollout_ref.actor.strategy=megatron", device="npu")
    assert "megatron is not registered for npu" in problem.message
    assert problem.hint == "on npu there are fsdp, fsdp2"


def test_a_name_that_verl_does_not_read_is_not_checked(source: Source) -> None:
    assert problems_of(source, "trainer.use_v1=False", "trainer.v1.trainer_mode=none_such") == []
    assert problems_of(source, "reward.reward_manager.source=importlib", "reward.reward_manager.name=Mine") == []


def test_plugins_add_their_names(source: Source, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(
        'NAME = "mine"\n\n\ndef register(module):\n    module.RolloutReplicaRegistry.register(NAME, print)\n'
        '    module._ROLLOUT_REGISTRY[NAME, "async"] = "plugin.Adapter"\n'
    )
    (plugin / "transport.py").write_text('@CheckpointEngineRegistry.register("gloo")\nclass Gloo: ...\n')
    overrides = ("actor_rollout_ref.rollout.name=mine", "actor_rollout_ref.rollout.checkpoint_engine.backend=gloo")
    assert problems_of(source, *overrides, plugins=(plugin,)) == []
    assert [problem.name for problem in problems_of(source, *overrides)] == [
        "actor_rollout_ref.rollout.name",
        "actor_rollout_ref.rollout.checkpoint_engine.backend",
    ]


def test_a_registry_that_cannot_be_read_is_no_pass(source: Source, fake_verl: Path) -> None:
    shutil.rmtree(fake_verl / "verl" / "workers" / "engine")
    (problem,) = problems_of(source)
    assert problem.name == "actor_rollout_ref.actor.strategy"
    assert problem.message.startswith("unknown: the training engines")
