from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from ci.preflight.rules import rule_problems

FACTS = {
    "trainer_mode": "separate_async",
    "ranks": 4,
    "strategy": "fsdp2",
    "fsdp_size": -1,
    "sequence_parallel": 1,
    "data_parallel": 4,
    "checkpoint_engine": "nccl",
    "reward_pool": "none",
}
ROLLOUT = "actor_rollout_ref.rollout"


def rules_of(facts: dict[str, Any] | None = None, **values: Any) -> dict[str, str]:
    """Return the broken rules of a configuration that breaks none but for what is given."""
    configuration = OmegaConf.create(
        {
            "data": {"train_batch_size": 16},
            "trainer": {"v1": {"separate_async": {"parameter_sync_step": 4}}},
            "reward": {"reward_model": {"nnodes": 0, "n_gpus_per_node": 8}},
            "actor_rollout_ref": {
                "actor": {"ppo_mini_batch_size": 4, "use_dynamic_bsz": True},
                "rollout": {
                    "nnodes": 1,
                    "n_gpus_per_node": 2,
                    "tensor_model_parallel_size": 1,
                    "data_parallel_size": 1,
                    "pipeline_model_parallel_size": 1,
                    "log_prob_use_dynamic_bsz": True,
                },
            },
        }
    )
    for name, value in values.items():
        key = {
            "batch": "data.train_batch_size",
            "nodes": f"{ROLLOUT}.nnodes",
            "tensor_parallel": f"{ROLLOUT}.tensor_model_parallel_size",
            "dynamic": f"{ROLLOUT}.log_prob_use_dynamic_bsz",
            "hybrid": "actor_rollout_ref.hybrid_engine",
        }[name]
        OmegaConf.update(configuration, key, value)
    problems = rule_problems(configuration, {**FACTS, **(facts or {})})
    assert all(problem.hint and problem.state == "failed" for problem in problems)
    return {problem.name.rpartition(".")[2]: problem.message for problem in problems}


def test_a_sound_configuration_breaks_no_rule() -> None:
    assert rules_of() == {}


@pytest.mark.parametrize(
    ("facts", "values", "name", "message"),
    [
        ({"fsdp_size": 1, "strategy": "fsdp"}, {}, "fsdp_size", "gradients are never synchronised"),
        ({"fsdp_size": 1}, {}, "fsdp_size", "nothing is sharded"),
        ({"fsdp_size": 3}, {}, "fsdp_size", "1 would be in no mesh"),
        ({"fsdp_size": 0}, {}, "fsdp_size", "divides the 4 ranks by it"),
        ({"sequence_parallel": 3}, {}, "data_parallel", "not a multiple of 3 (sequence parallel)"),
        ({"sequence_parallel": 8, "data_parallel": 0}, {}, "data_parallel", "fewer than the ranks"),
        (
            {"tensor_parallel": 3, "pipeline_parallel": 2, "fsdp_size": None},
            {},
            "data_parallel",
            "not a multiple of 6 (tensor parallel 3 × pipeline parallel 2)",
        ),
        ({}, {"tensor_parallel": 4}, "tensor_model_parallel_size", "pool of 2 devices"),
        ({"ranks": 2}, {"tensor_parallel": 4, "nodes": 2}, "tensor_model_parallel_size", "on the training devices"),
        ({"trainer_mode": "sync"}, {"tensor_parallel": 3}, "tensor_model_parallel_size", "rollout uses them too"),
        ({"trainer_mode": "sync"}, {"batch": 6}, "train_batch_size", "not a multiple of actor.ppo_mini_batch_size=4"),
        ({}, {"batch": 15}, "train_batch_size", "is not parameter_sync_step × ppo_mini_batch_size = 4 × 4"),
        ({}, {"nodes": 0}, "nnodes", "needs a rollout pool of its own"),
        ({"checkpoint_engine": "naive"}, {}, "backend", "inside one process"),
        ({"reward_pool": "colocated"}, {}, "enable_resource_pool", "finds no memory"),
        ({"reward_pool": "own"}, {}, "nnodes", "the reward model's pool is empty"),
        ({}, {"dynamic": False}, "use_dynamic_bsz", "rollout.log_prob_use_dynamic_bsz=False"),
    ],
)
def test_a_broken_rule_is_told(facts: dict[str, Any], values: dict[str, Any], name: str, message: str) -> None:
    broken = rules_of(facts, **values)
    assert message in broken[name]
    assert len(broken) == 1


def test_one_rank_may_have_an_fsdp_size_of_one() -> None:
    assert rules_of({"fsdp_size": 1, "ranks": 1, "data_parallel": 1}) == {}


def test_without_hybrid_replicas_the_training_ranks_are_free() -> None:
    assert rules_of({"ranks": 2}, tensor_parallel=2, hybrid=False, nodes=2) == {}
    assert rules_of({"ranks": 3}, tensor_parallel=2, hybrid=False) == {}
    assert set(rules_of({"ranks": 3}, tensor_parallel=2)) == {"tensor_model_parallel_size"}
