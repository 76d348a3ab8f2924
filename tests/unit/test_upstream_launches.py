"""Every launch recorded from verl's own scripts is planned alike, or refused alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.errors import ConfigError
from ci.options import Options
from ci.plan import Plan
from tests.unit.plans import plan_of

DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = json.loads((DATA / "upstream_launches.json").read_text())["cases"]
DIFFERENCES = yaml.safe_load((DATA / "deliberate_differences.yaml").read_text())["overrides"]


def scenario_of(case: dict[str, Any]) -> str:
    strategy = "megatron" if case["env"].get("ACTOR_STRATEGY") == "megatron" else "fsdp2"
    return {
        "run_v1_separate_async.sh": strategy,
        "run_v1_separate_async_ascend.sh": f"{strategy}_ascend",
        "run_v1_separate_async_opd.sh": "opd",
        "run_v1_colocate_async_disrm.sh": "disrm",
    }[case["script"]]


def planned(case: dict[str, Any]) -> Plan:
    name = scenario_of(case)
    target = "npu" if name.endswith("_ascend") else "cuda"
    return plan_of(name, Options(target=target, arguments=tuple(case["args"])), environment=case["env"])  # type: ignore[arg-type]  # one of two literals


def identifier(case: dict[str, Any]) -> str:
    return " ".join((case["script"].removesuffix(".sh"), *(f"{k}={v}" for k, v in case["env"].items()), *case["args"]))


@pytest.mark.parametrize("case", [case for case in CASES if case["exit"] == 0], ids=identifier)
def test_accepted_launch_is_planned_alike(case: dict[str, Any]) -> None:
    plan = planned(case)
    split = case["argv"].index("-m")
    theirs = set(case["argv"][split + 2 :])
    for difference in DIFFERENCES:
        if difference["script"] == case["script"]:
            assert difference["theirs"] in theirs
            theirs = theirs - {difference["theirs"]} | {difference["ours"]}
    assert set(plan.argv[len(plan.launcher) + 2 :]) == theirs
    assert list(plan.launcher) == case["argv"][:split]
    assert plan.module == case["argv"][split + 1]
    assert plan.argv[len(plan.argv) - len(case["args"]) :] == tuple(case["args"])


@pytest.mark.parametrize("case", [case for case in CASES if case["exit"] == 0], ids=identifier)
def test_the_override_that_wins_is_the_same(case: dict[str, Any]) -> None:
    def effective(words: list[str]) -> dict[str, str]:
        return dict(word.split("=", 1) for word in words)

    theirs = effective(case["argv"][case["argv"].index("-m") + 2 :])
    for difference in DIFFERENCES:
        if difference["script"] == case["script"]:
            del theirs[difference["theirs"].split("=")[0]]
            theirs |= effective([difference["ours"]])
    plan = planned(case)
    assert effective([*plan.overrides, *plan.arguments]) == theirs


@pytest.mark.parametrize("case", [case for case in CASES if case["exit"] != 0], ids=identifier)
def test_refused_launch_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refusal:
        planned(case)
    assert any(name in str(refusal.value) or value in str(refusal.value) for name, value in case["env"].items())


def test_every_script_that_was_recorded_is_a_scenarios() -> None:
    assert {case["script"] for case in CASES} == {
        "run_v1_separate_async.sh",
        "run_v1_separate_async_ascend.sh",
        "run_v1_separate_async_opd.sh",
        "run_v1_colocate_async_disrm.sh",
    }


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("fsdp2", {"PARAMETER_SYNC_STEP": "0"}),
        ("fsdp2", {"PARAMETER_SYNC_STEP": "-1"}),
        ("fsdp2", {"PPO_MINI_BATCH_SIZE": "0"}),
        ("fsdp2", {"TOTAL_TRAINING_STEPS": "0"}),
        ("fsdp2", {"N_RESP_PER_PROMPT": "0"}),
        ("fsdp2", {"MAX_RESPONSE_LENGTH": "-5"}),
        ("fsdp2", {"MAX_PROMPT_LENGTH": "0"}),
        ("fsdp2", {"ROLLOUT_GPU_MEMORY_UTILIZATION": "1.5"}),
        ("fsdp2", {"ROLLOUT_GPU_MEMORY_UTILIZATION": "0"}),
        ("fsdp2", {"ROLLOUT_GPU_MEMORY_UTILIZATION": "nan"}),
        ("fsdp2", {"ROLLOUT_GPU_MEMORY_UTILIZATION": "1e999"}),
        ("fsdp2", {"NUM_GPUS": "08"}),
        ("fsdp2", {"NUM_GPUS": "010"}),
        ("fsdp2", {"NUM_GPUS": "0x8"}),
        ("fsdp2", {"NUM_GPUS": "8 "}),
        ("fsdp2", {"NUM_GPUS": "+8"}),
        ("fsdp2", {"NUM_GPUS": "8.0"}),
        ("fsdp2", {"NUM_GPUS": "1_6"}),
        ("fsdp2", {"NUM_GPUS": "٨"}),
        ("fsdp2", {"NUM_GPUS": "99999999999999999999"}),
        ("fsdp2", {"NUM_GPUS": "4+4"}),
        ("fsdp2", {"ROLLOUT_TP": "-2"}),
        ("fsdp2", {"VERL_USE_UV": "no"}),
        ("fsdp2", {"DEVICE": "cuda"}),
        ("fsdp2", {"ACTOR_STRATEGY": "megatron"}),
        ("fsdp2", {"VERL_LOGGING_LEVEL": "LOUD"}),
        ("fsdp2", {"MODEL_ID": "../../etc/passwd "}),
        ("fsdp2", {"MODEL_PATH": "/models/${HOME}"}),
        ("fsdp2", {"MODEL_PATH": "/models/a,b"}),
        ("fsdp2", {"TRAIN_FILES": "null"}),
        ("megatron", {"TRAIN_TP": "3"}),
        ("megatron", {"TRAIN_TP": "0"}),
        ("megatron", {"VANILLA_MBRIDGE": "yes"}),
        ("megatron", {"NUM_GPUS": "2"}),
        ("opd", {"PPO_MINI_BATCH_SIZE": "0"}),
        ("opd", {"N_GPUS_TEACHERS": "0", "N_GPUS_ROLLOUT": "4"}),
        ("opd", {"N_GPUS_TEACHERS": "4", "N_GPUS_TRAINING": "2"}),
        ("opd", {"MAX_NUM_SEQS": "0"}),
        ("disrm", {"NUM_GPUS": "0"}),
        ("disrm", {"NUM_GPUS": "3"}),
        ("disrm", {"ROLLOUT_NAME": "vlm"}),
        ("disrm", {"ROLLOUT_NAME": "hf"}),
        ("disrm", {"NUM_REWARD_WORKERS": "5"}),
        ("disrm", {"NUM_REWARD_WORKERS": "0"}),
        ("disrm", {"TRAIN_PROMPT_BSZ": "0"}),
        ("disrm", {"TRAIN_PROMPT_MINI_BSZ": "16"}),
        ("disrm", {"TRAIN_PROMPT_MINI_BSZ": "3"}),
        ("genrm", {"NUM_GPUS": "2"}),
        ("genrm", {"N_GPUS_REWARD": "2"}),
        ("sync", {"TRAIN_BATCH_SIZE": "6"}),
        ("sync", {"ROLLOUT_TP": "2"}),
    ],
    ids=str,
)
def test_nonsense_that_the_scripts_let_through_is_refused(name: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        plan_of(name, Options(target="npu" if name.endswith("ascend") else "cuda"), environment=environment)
    assert any(knob in str(refusal.value) for knob in environment) or "layout" in str(refusal.value)


def test_an_empty_knob_is_an_unset_one() -> None:
    assert plan_of("fsdp2", Options(target="cuda"), environment={"NUM_GPUS": ""}).layout.devices == 8


def test_all_wrong_knobs_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as refusal:
        plan_of("fsdp2", Options(target="cuda"), environment={"NUM_GPUS": "08", "ROLLOUT_TP": "0", "DEVICE": "tpu"})
    assert all(knob in str(refusal.value) for knob in ("NUM_GPUS=08", "ROLLOUT_TP=0", "DEVICE=tpu"))
