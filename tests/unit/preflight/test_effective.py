from __future__ import annotations

from pathlib import Path

import pytest

from ci.cache import cache_directory
from ci.preflight.configuration import Composer
from ci.preflight.effective import Effective, VerlCode, fact_problems
from ci.preflight.problem import Problem
from ci.scenarios.model import Facts
from ci.verl.source import Source


def effective_of(source: Source, *overrides: str) -> Effective:
    with VerlCode(source=source) as code:
        code.ask("it", Composer(source=source).compose(overrides))
        return code.collect()["it"]


def problems_of(source: Source, facts: Facts, *overrides: str) -> list[Problem]:
    return list(fact_problems(facts, effective_of(source, *overrides)))


def test_the_facts_are_those_of_verls_own_dataclasses(source: Source) -> None:
    effective = effective_of(source, "actor_rollout_ref.actor.strategy=fsdp2", "trainer.n_gpus_per_node=4")
    assert effective.facts == {
        "trainer_mode": "sync",
        "ranks": 4,
        "strategy": "fsdp2",
        "fsdp_size": -1,
        "sequence_parallel": 1,
        "data_parallel": 4,
        "rollout_engine": "vllm",
        "checkpoint_engine": "naive",
        "reward_pool": "none",
    }
    assert (effective.refused, effective.rewritten, effective.unknown) == ((), (), ())


def test_a_strategy_that_verl_overwrites_is_told_with_the_reason(source: Source) -> None:
    facts = Facts(strategy="fsdp2", trainer_mode="sync")
    (problem,) = problems_of(source, facts, "actor_rollout_ref.actor.fsdp_config.strategy=fsdp2")
    assert problem.state == "failed"
    assert problem.message == "actor.strategy=fsdp wins over fsdp_config.strategy=fsdp2: verl would train FSDP1"
    assert problem.hint == "set actor_rollout_ref.actor.strategy=fsdp2"


def test_an_override_that_has_no_effect_fails_even_where_the_fact_holds(source: Source) -> None:
    facts = Facts(strategy="fsdp")
    (problem,) = problems_of(source, facts, "actor_rollout_ref.actor.fsdp_config.strategy=fsdp2")
    assert problem.state == "failed"
    assert "turns actor_rollout_ref.actor.fsdp_config.strategy=fsdp2 into fsdp" in problem.message


def test_every_fact_that_does_not_hold_is_told(source: Source) -> None:
    facts = Facts(
        trainer_mode="separate_async",
        strategy="megatron",
        rollout_engine="sglang",
        checkpoint_engine="nccl",
        fsdp_size=2,
        data_parallel=1,
        reward_pool="own",
    )
    problems = {problem.name: problem for problem in problems_of(source, facts)}
    assert set(problems) == set(facts.model_dump(exclude_none=True))
    assert problems["strategy"].message == "verl would train FSDP1, but the scenario is about Megatron"
    assert problems["strategy"].hint == "choose model_engine=megatron"
    assert problems["data_parallel"].message.endswith("(2 training ranks)")


def test_a_fact_that_verl_does_not_tell_is_no_pass(source: Source) -> None:
    (problem,) = problems_of(source, Facts(tensor_parallel=2, strategy="fsdp"))
    assert problem.state == "failed"
    assert problem.message.startswith("unknown: whether verl would really use")
    assert "tensor_parallel 2" in problem.message


def test_what_verls_constructors_and_checks_refuse_is_shown(source: Source) -> None:
    (problem,) = problems_of(source, Facts(strategy="fsdp3"), "actor_rollout_ref.actor.fsdp_config.strategy=fsdp3")
    assert problem.name == "actor_rollout_ref.actor"
    assert problem.message == "verl refuses it: strategy fsdp3 not supported"
    (problem,) = problems_of(source, Facts(), "actor_rollout_ref.actor.ppo_mini_batch_size=13")
    assert problem.message == "verl refuses it: thirteen brings bad luck"
    (problem,) = problems_of(source, Facts(), "+actor_rollout_ref.model.pathh=x")
    assert "unexpected keyword argument 'pathh'" in problem.message


def test_a_value_of_another_type_than_the_dataclass_declares_is_refused(source: Source) -> None:
    (problem,) = problems_of(source, Facts(), "actor_rollout_ref.actor.clip=high")
    assert problem.name == "actor_rollout_ref.actor.clip"
    assert "is no Optional[float], as ActorConfig declares it" in problem.message
    assert problems_of(source, Facts(), "actor_rollout_ref.actor.clip=1") == []


def test_a_verl_of_another_shape_is_unknown_and_not_kept(source: Source, fake_verl: Path) -> None:
    (fake_verl / "verl/workers/config/__init__.py").write_text("from verl.elsewhere import ActorConfig\n")
    effective = effective_of(source)
    assert [section for section, _ in effective.unknown] == [
        "actor_rollout_ref.model",
        "actor_rollout_ref.actor",
        "actor_rollout_ref.rollout",
        "actor_rollout_ref.rollout.checkpoint_engine",
    ]
    problems = fact_problems(Facts(strategy="fsdp"), effective)
    assert all(problem.state == "failed" and problem.message.startswith("unknown") for problem in problems)
    assert list(cache_directory("effective").iterdir()) == []


def test_a_process_that_dies_is_unknown(source: Source, fake_verl: Path) -> None:
    (fake_verl / "verl/workers/config/__init__.py").write_text(
        "import os, sys\nprint('boom', file=sys.stderr)\nos._exit(3)\n"
    )
    effective = effective_of(source)
    assert effective.facts == {}
    assert effective.unknown == (("configuration", "boom"),)


def test_a_kept_answer_starts_no_process(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    first = effective_of(source, "trainer.nnodes=2")
    monkeypatch.setattr("ci.preflight.effective.subprocess.Popen", None)
    assert effective_of(source, "trainer.nnodes=2") == first
