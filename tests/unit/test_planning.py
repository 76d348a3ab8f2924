"""A plan follows from scenario, options and surroundings alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ci.caller import caller_environment
from ci.dry_run import headline, plan_text
from ci.errors import ConfigError
from ci.options import Options, parse
from ci.plan import Plan, Verl
from ci.scenarios.catalogue import load
from tests.unit.plans import IDENTITY, IMAGES, plan_of


def test_auto_takes_the_machines_devices() -> None:
    plan = plan_of("fsdp2", machine="cuda")
    assert (plan.target, plan.engine, plan.rehearsal, plan.devices) == ("cuda", "docker", False, 8)


def test_auto_rehearses_where_there_is_no_device_and_says_so() -> None:
    plan = plan_of("fsdp2", machine="cpu")
    assert (plan.target, plan.engine, plan.rehearsal, plan.devices) == ("cpu", "host", True, 0)
    assert "rehearsal" in headline(plan)
    assert any("no cuda device here" in note for note in plan.notes)


@pytest.mark.parametrize("variable", ["CI", "GITHUB_ACTIONS"])
def test_under_ci_nothing_becomes_a_rehearsal_by_itself(variable: str) -> None:
    with pytest.raises(ConfigError, match="must not pass for the real run"):
        plan_of("fsdp2", environment={variable: "true"})
    assert plan_of("fsdp2", Options(target="cpu"), environment={variable: "true"}).rehearsal


def test_inside_an_image_the_trainer_starts_straight_here() -> None:
    plan = plan_of("fsdp2", machine="cuda", inside=IDENTITY)
    assert (plan.engine, plan.image, plan.mounts) == ("host", IMAGES["cuda"], ())
    assert (plan.verl.kind, plan.verl.name) == ("installed", "python3")


def test_inside_an_image_its_variables_are_there_though_the_jobs_shell_did_not_inherit_them() -> None:
    environment = plan_of(
        "megatron", machine="cuda", inside=IDENTITY, environment={"PATH": "/mine:/usr/bin"}
    ).environment
    assert environment["PATH"] == "/opt/verl/bin:/usr/bin:/mine"
    assert environment["UV_PROJECT_ENVIRONMENT"] == "/opt/verl"
    assert environment["PYTHONPATH"].split(":").count("/workspace/Megatron-LM") == 1
    rehearsed = plan_of("fsdp2", Options(target="cpu"), inside=IDENTITY, environment={"PATH": "/mine"})
    assert "PATH" not in rehearsed.environment


def test_the_other_accelerator_is_refused_with_the_twin() -> None:
    with pytest.raises(ConfigError, match="e2e_fsdp2_ascend` is its npu twin"):
        plan_of("fsdp2", Options(target="npu"))
    with pytest.raises(ConfigError, match="e2e_megatron` is its cuda twin"):
        plan_of("megatron_ascend", Options(target="cuda"))


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(ConfigError, match="no image is called `rocm`; known: ascend, cpu, cuda"):
        plan_of("fsdp2", Options(target="cuda", image="rocm"))


def test_the_image_is_the_locks() -> None:
    plan = plan_of("fsdp2", Options(target="cuda"))
    assert plan.image == IMAGES["cuda"]
    rehearsed = plan_of("fsdp2", Options(target="cpu", engine="docker"))
    assert rehearsed.image == IMAGES["cpu"]
    assert rehearsed.launcher == ("python3",)


def test_megatron_reaches_every_process_and_nothing_else_is_put_there() -> None:
    assert (
        plan_of("megatron", Options(target="cuda")).environment["PYTHONPATH"].split(":")[0] == "/workspace/Megatron-LM"
    )
    assert "Megatron" not in plan_of("fsdp2", Options(target="cuda")).environment["PYTHONPATH"]


def test_what_the_caller_has_on_the_python_path_stays_behind_on_the_host() -> None:
    plan = plan_of("megatron", machine="cuda", inside=IDENTITY, environment={"PYTHONPATH": "/mine"})
    assert plan.environment["PYTHONPATH"].endswith(":/mine")
    assert (
        "/mine"
        not in plan_of("megatron", machine="cuda", environment={"PYTHONPATH": "/mine"}).environment["PYTHONPATH"]
    )


def test_the_observer_is_loaded_on_every_target_and_the_cpu_platform_in_a_rehearsal_alone() -> None:
    assert plan_of("fsdp2", Options(target="cuda")).environment["VERL_USE_EXTERNAL_MODULES"] == "verl_observer"
    assert plan_of("fsdp2").environment["VERL_USE_EXTERNAL_MODULES"] == "verl_observer,verl_rehearsal"


def test_a_knob_given_wins_over_the_rehearsals_default() -> None:
    assert plan_of("fsdp2").knobs["NUM_GPUS"] == 4
    assert plan_of("fsdp2", environment={"NUM_GPUS": "8"}).layout.devices == 8


def test_a_knob_of_another_scenario_is_noted_and_ignored() -> None:
    plan = plan_of("fsdp2", Options(target="cuda"), environment={"TRAIN_TP": "4"})
    assert any("TRAIN_TP is set, but it is no knob of this scenario" in note for note in plan.notes)


def test_the_callers_overrides_come_last() -> None:
    plan = plan_of("fsdp2", Options(target="cuda", arguments=("trainer.nnodes=1", "+trainer.foo=1")))
    assert plan.argv[-2:] == ("trainer.nnodes=1", "+trainer.foo=1")


def test_what_an_older_release_does_not_know_is_left_out_and_noted() -> None:
    key = "actor_rollout_ref.actor.megatron.grad_offload"
    old = plan_of("megatron", Options(target="cuda"), verl=Verl(kind="release", name="0.9.1"), verl_version="0.9.1")
    new = plan_of("megatron", Options(target="cuda"), verl=Verl(kind="checkout", name="/v"), verl_version="0.10.0.dev")
    assert f"{key}=False" in new.overrides
    assert not [word for word in old.overrides if word.startswith(key)]
    assert any(key in note for note in old.notes)


def test_a_data_step_that_makes_nothing_the_trainer_reads_is_left_out() -> None:
    assert [step.name for step in plan_of("opd", Options(target="cuda")).steps] == ["gsm8k", "geo3k"]
    elsewhere = {"TRAIN_FILES": "/d/a.parquet", "VAL_FILES": "/d/b.parquet"}
    assert plan_of("fsdp2", Options(target="cuda"), environment=elsewhere).steps == ()


def test_limits_are_the_scenarios_or_the_callers() -> None:
    assert plan_of("fsdp2", Options(target="cuda")).time_limit_s == 55 * 60
    assert plan_of("fsdp2", Options(target="cuda", timeout_s=90)).time_limit_s == 90


def test_a_plan_comes_back_from_its_json() -> None:
    plan = plan_of("opd", Options(target="cuda"))
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize("name", ["fsdp2", "opd", "disrm"])
def test_the_printed_command_can_be_pasted(name: str) -> None:
    plan = plan_of(name, Options(target="cuda"))
    text = plan_text(plan, load()[name])
    command = text.partition("\ncommand\n")[2].partition("\nreproduce")[0].replace("\\\n", " ")
    words = shlex.split(command)
    assert tuple(words[-len(plan.argv) :]) == plan.argv
    assert words[-len(plan.argv) - len(plan.environment) - 1] == "env"


def test_the_line_that_reproduces_a_plan_makes_the_same_one() -> None:
    environment = {"NUM_GPUS": "4", "TRAIN_FILES": "/d/a.parquet"}
    plan = plan_of(
        "fsdp2", Options(target="cuda", timeout_s=90, arguments=("trainer.logger=[console]",)), environment=environment
    )
    words = shlex.split(plan.reproduce)
    knobs = dict(word.split("=", 1) for word in words[: words.index("nox")])
    again = plan_of("fsdp2", parse(words[words.index("--") + 1 :], session="e2e_fsdp2"), environment=knobs)
    assert again == plan


def test_a_trainer_does_not_inherit_what_nox_put_there_for_itself(tmp_path: Path) -> None:
    environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin",
        "VIRTUAL_ENV": str(tmp_path),
        "NOX_CURRENT_SESSION": "x",
        "HOME": "/h",
    }
    assert caller_environment(environment, prefix=str(tmp_path)) == {"PATH": "/usr/bin", "HOME": "/h"}
