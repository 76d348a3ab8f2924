"""What verl asserts after minutes on a device, or never: rules between values of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ci.preflight.problem import Problem


def rule_problems(configuration: DictConfig, facts: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Check the rules against a configuration and the facts that verl's own code told about it."""
    return (
        *_training_ranks(facts),
        *_rollout_ranks(configuration, facts),
        *_batches(configuration, facts),
        *_separate_async(configuration, facts),
    )


def _training_ranks(facts: Mapping[str, Any]) -> Iterator[Problem]:
    ranks, size, strategy = facts.get("ranks"), facts.get("fsdp_size"), str(facts.get("strategy"))
    key = "actor_rollout_ref.actor.fsdp_config.fsdp_size"
    if isinstance(size, int) and isinstance(ranks, int) and 0 <= size < ranks:
        # verl/workers/engine/fsdp/utils.py makes a mesh of (ranks // fsdp_size) × fsdp_size
        if size == 0:
            yield Problem(
                name=key, message=f"{key}=0: verl divides the {ranks} ranks by it", hint="give -1 for all ranks"
            )
        elif size == 1:
            # Measured with two ranks on torch 2.13: after one step the ranks of FSDP1 hold different weights.
            why = (
                "torch then takes NO_SHARD with a process group of one rank: gradients are never synchronised, "
                "and every rank trains a model of its own"
                if strategy == "fsdp"
                else "nothing is sharded: every rank holds the whole model, and skips the gradient sync of shards"
            )
            yield Problem(
                name=key,
                message=f"{key}=1 with {ranks} training ranks: {why}",
                hint=f"give -1, or {ranks}, for all ranks",
            )
        elif ranks % size:
            yield Problem(
                name=key,
                message=f"{key}={size} does not divide the {ranks} training ranks: {ranks % size} would be in no mesh",
                hint="give a divisor, or -1 for all ranks",
            )
    for name in ("sequence_parallel", "data_parallel"):
        if facts.get(name) == 0:
            yield Problem(
                name=name,
                message=f"the {ranks} training ranks are fewer than the ranks that one model replica needs",
                hint="give more training devices, or smaller parallel sizes",
            )
            return
    parts = {
        name: facts[name] for name in ("tensor_parallel", "pipeline_parallel", "context_parallel") if name in facts
    }
    share = _product(parts.values()) if parts else facts.get("sequence_parallel")
    if isinstance(ranks, int) and isinstance(share, int) and share and ranks % share:
        what = " × ".join(f"{name.replace('_', ' ')} {value}" for name, value in parts.items()) or "sequence parallel"
        yield Problem(
            name="data_parallel",
            message=f"{ranks} training ranks are not a multiple of {share} ({what})",
            hint="the quotient is the data parallel size: it has to be a whole number",
        )


def _rollout_ranks(configuration: DictConfig, facts: Mapping[str, Any]) -> Iterator[Problem]:
    rollout = "actor_rollout_ref.rollout"
    sizes = [
        _number(configuration, f"{rollout}.{name}")
        for name in ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    ]
    replica = _product([size for size in sizes if size is not None])
    ranks = facts.get("ranks")
    key = f"{rollout}.tensor_model_parallel_size"
    separate = facts.get("trainer_mode") == "separate_async"
    # hybrid_engine=False, which 0.9.1 alone reads, starts no replica on the training devices
    hybrid = OmegaConf.select(configuration, "actor_rollout_ref.hybrid_engine", default=True)
    if isinstance(ranks, int) and replica and hybrid and ranks % replica:
        why = "separate_async starts replicas on the training devices as well" if separate else "rollout uses them too"
        yield Problem(
            name=key,
            message=f"{ranks} training ranks are not a multiple of the {replica} that a rollout replica needs: {why}",
            hint="verl asserts it when the workers start: give a parallel size that divides the training devices",
        )
    pool = _product(
        [_number(configuration, f"{rollout}.{name}") or 0 for name in ("nnodes", "n_gpus_per_node")] if separate else []
    )
    if separate and replica and pool % replica:
        yield Problem(
            name=key,
            message=f"the rollout pool of {pool} devices is not a multiple of the {replica} that a replica needs",
            hint="the rest of the devices would be leased and never used",
        )


def _batches(configuration: DictConfig, facts: Mapping[str, Any]) -> Iterator[Problem]:
    actor = OmegaConf.select(configuration, "actor_rollout_ref.actor.use_dynamic_bsz")
    rollout = OmegaConf.select(configuration, "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz")
    if None not in (actor, rollout) and actor != rollout:
        yield Problem(
            name="actor_rollout_ref.actor.use_dynamic_bsz",
            message=f"actor.use_dynamic_bsz={actor}, but rollout.log_prob_use_dynamic_bsz={rollout}",
            hint="verl asserts that both are the same when the workers start",
        )
    batch = _number(configuration, "data.train_batch_size")
    mini = _number(configuration, "actor_rollout_ref.actor.ppo_mini_batch_size")
    if facts.get("trainer_mode") in {"sync", "colocate_async"} and batch and mini and batch % mini:
        yield Problem(
            name="data.train_batch_size",
            message=f"data.train_batch_size={batch} is not a multiple of actor.ppo_mini_batch_size={mini}",
            hint="the batch is split into mini batches evenly",
        )


def _separate_async(configuration: DictConfig, facts: Mapping[str, Any]) -> Iterator[Problem]:
    if facts.get("trainer_mode") != "separate_async":
        return
    batch = _number(configuration, "data.train_batch_size")
    mini = _number(configuration, "actor_rollout_ref.actor.ppo_mini_batch_size")
    step = _number(configuration, "trainer.v1.separate_async.parameter_sync_step")
    if None not in (batch, mini, step) and batch != (step or 0) * (mini or 0):
        yield Problem(
            name="data.train_batch_size",
            message=f"data.train_batch_size={batch} is not parameter_sync_step × ppo_mini_batch_size = {step} × {mini}",
            hint=f"separate_async needs data.train_batch_size={(step or 0) * (mini or 0)}",
        )
    for name in ("nnodes", "n_gpus_per_node"):
        key = f"actor_rollout_ref.rollout.{name}"
        value = _number(configuration, key)
        if value is not None and value <= 0:
            yield Problem(
                name=key,
                message=f"{key}={value}: separate_async needs a rollout pool of its own",
                hint="give 1 or more",
            )
    if facts.get("checkpoint_engine") == "naive":
        yield Problem(
            name="actor_rollout_ref.rollout.checkpoint_engine.backend",
            message="backend=naive hands weights over inside one process, and separate_async has several",
            hint="give nccl (which is HCCL on Ascend), nixl or another transport",
        )
    if facts.get("reward_pool") == "colocated":
        yield Problem(
            name="reward.reward_model.enable_resource_pool",
            message="separate_async never pauses its rollout, so a colocated reward model finds no memory",
            hint="set reward.reward_model.enable_resource_pool=True with n_gpus_per_node and nnodes",
        )
    elif facts.get("reward_pool") == "own":
        for name in ("nnodes", "n_gpus_per_node"):
            key = f"reward.reward_model.{name}"
            if (_number(configuration, key) or 0) <= 0:
                yield Problem(name=key, message=f"{key} is 0: the reward model's pool is empty", hint="give 1 or more")


def _number(configuration: DictConfig, key: str) -> int | None:
    value = OmegaConf.select(configuration, key, default=None, throw_on_resolution_failure=False)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _product(numbers: Any) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
