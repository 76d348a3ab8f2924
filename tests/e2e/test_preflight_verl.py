"""Preflight with real releases of verl, fetched from the package index once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
import pytest
from omegaconf import OmegaConf

from ci.cache import CACHE_VARIABLE, cache_directory
from ci.options import Options
from ci.plan import Plan, Verl
from ci.preflight.configuration import Composer
from ci.preflight.preflight import preflight
from ci.preflight.registry import TOPICS, read_registry
from ci.scenarios.catalogue import load
from ci.verl.source import find_source
from tests.unit.plans import plan_of

DATA = Path(__file__).parents[1] / "data" / "upstream_launches.json"
RELEASES = ("0.9.0", "0.9.1")
CASES: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))["cases"]
REWARD_SCRIPT = "run_v1_colocate_async_disrm.sh"


@pytest.fixture(autouse=True)
def new_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test find out everything itself; only the releases stay where they are."""
    releases = cache_directory("releases")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "releases").symlink_to(releases)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def release(version: str) -> dict[str, Any]:
    return {"verl": Verl(kind="release", name=version), "verl_version": version}


def scenario_of(case: Mapping[str, Any]) -> str:
    megatron = case["env"].get("ACTOR_STRATEGY") == "megatron"
    return {
        "run_v1_separate_async.sh": "megatron" if megatron else "fsdp2",
        "run_v1_separate_async_opd.sh": "opd",
        "run_v1_separate_async_ascend.sh": "megatron_ascend" if megatron else "fsdp2_ascend",
        REWARD_SCRIPT: "disrm",
    }[case["script"]]


def upstream_plan(number: int) -> Plan:
    """Return the plan of a case with the overrides that verl's own script gives, as far as 0.9.1 knows them."""
    case = CASES[number]
    name = scenario_of(case)
    plan = plan_of(name, Options(target=load()[name].accelerator), environment=case["env"], **release("0.9.1"))
    argv = case["argv"]
    newer = ("actor_rollout_ref.actor.megatron.grad_offload=",)
    overrides = tuple(word for word in argv[argv.index("verl.trainer.main_ppo") + 1 :] if not word.startswith(newer))
    return plan.model_copy(update={"overrides": overrides, "arguments": (), "scenario": f"{number}"})


@pytest.mark.parametrize("version", RELEASES)
def test_the_whole_catalogue_passes_in_fifteen_seconds(version: str) -> None:
    find_source(Verl(kind="release", name=version))
    plans = [plan_of(name, Options(target=load()[name].accelerator), **release(version)) for name in load()]
    started = time.monotonic()
    found = preflight(plans)
    took = time.monotonic() - started
    assert [line for line in found.lines if line.state == "failed"] == []
    assert set(found.configurations) == set(load())
    assert took <= 15
    started = time.monotonic()
    assert preflight(plans) == found
    assert time.monotonic() - started <= 5


@pytest.mark.parametrize("version", RELEASES)
def test_everything_is_read_of_every_release(version: str) -> None:
    registry = read_registry(find_source(Verl(kind="release", name=version)))
    assert {topic for topic in TOPICS if not registry.names(topic)} == set()
    assert registry.names("trainer_mode") == ("colocate_async", "separate_async", "sync")
    assert set(registry.names("strategy", device="npu")) >= {"fsdp", "fsdp2", "megatron"}


def test_one_misspelt_key_names_scenario_key_and_nearest() -> None:
    plan = plan_of("fsdp2", Options(target="cuda"), **release("0.9.1"))
    misspelt = plan.model_copy(update={"arguments": ("actor_rollout_ref.rollout.tensor_parallel_size=2",)})
    error = str(preflight([misspelt], machine=False).as_error())
    assert "fsdp2: actor_rollout_ref.rollout.tensor_parallel_size: " in error
    assert "nearest: actor_rollout_ref.rollout.tensor_model_parallel_size" in error


def test_verls_own_launches_pass_but_for_the_reward_script() -> None:
    accepted = [number for number, case in enumerate(CASES) if case["argv"]]
    found = preflight([upstream_plan(number) for number in accepted], machine=False)
    failed = {int(line.scenario): line for line in found.lines if line.state == "failed"}
    assert set(failed) == {number for number in accepted if CASES[number]["script"] == REWARD_SCRIPT}
    assert {(line.name, line.detail) for line in failed.values()} == {
        ("strategy", "actor.strategy=fsdp wins over fsdp_config.strategy=fsdp2: verl would train FSDP1")
    }
    assert {line.hint for line in failed.values()} == {"set actor_rollout_ref.actor.strategy=fsdp2"}


@pytest.mark.parametrize("number", [0, 25, 33, 37])
def test_the_configuration_is_what_hydra_composes(number: int) -> None:
    plan = upstream_plan(number)
    source = find_source(plan.verl)
    with hydra.initialize_config_dir(config_dir=str(source.configuration), version_base=None):
        expected = OmegaConf.to_container(hydra.compose("ppo_trainer", overrides=list(plan.overrides)))
    assert Composer(source=source).compose(plan.overrides).configuration == expected


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("trainer.v1.trainer_mode=seperate_async", "did you mean separate_async?"),
        ("actor_rollout_ref.rollout.checkpoint_engine.backend=hccl", "did you mean nccl?"),
        ("data.train_batch_size=5", "is not parameter_sync_step × ppo_mini_batch_size = 4 × 1"),
        ("actor_rollout_ref.actor.fsdp_config.fsdp_size=1", "fsdp_size=1 with 4 training ranks"),
        ("actor_rollout_ref.actor.loss_agg_mode=token", "verl refuses it: Invalid loss_agg_mode: token"),
        ("actor_rollout_ref.rollout.mode=sync", "Rollout mode 'sync' has been removed"),
        ("actor_rollout_ref.rollout.max_model_len=long", "is no Optional[int], as RolloutConfig declares it"),
        ("+actor_rollout_ref.model.lora_rnak=8", "unexpected keyword argument 'lora_rnak'"),
    ],
)
def test_what_verl_says_after_minutes_is_said_at_once(override: str, says: str) -> None:
    plan = plan_of("fsdp2", Options(target="cuda"), **release("0.9.1")).model_copy(update={"arguments": (override,)})
    assert says in str(preflight([plan], machine=False).as_error())
