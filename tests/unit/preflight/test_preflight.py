from __future__ import annotations

import io
import json
import stat
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ci.devices.probe import Device
from ci.errors import ConfigError, DeviceError, ImageError
from ci.options import Options
from ci.plan import Plan, Step, Verl
from ci.preflight.importable import check_importable
from ci.preflight.machine import machine_lines
from ci.preflight.preflight import Preflight, preflight
from ci.preflight.report import Line, print_report
from ci.scenarios.model import Facts
from ci.verl.source import Source
from tests.unit.plans import plan_of

GPUS = tuple(Device(kind="cuda", id=number, name="H200", memory_total=1, memory_used=0) for number in range(8))


@pytest.fixture
def plan(fake_verl: Path) -> Plan:
    """Return a plan of the small verl."""
    return plan_of("sync", Options(target="cuda")).model_copy(
        update={
            "verl": Verl(kind="checkout", name=str(fake_verl)),
            "overrides": ("actor_rollout_ref.actor.strategy=fsdp2", "trainer.n_gpus_per_node=2"),
            "facts": Facts(strategy="fsdp2", trainer_mode="sync", data_parallel=2),
            "environment": {},
            "models": {},
            "data_files": (),
            "steps": (),
        }
    )


def test_a_sound_plan_passes_with_a_hint_on_every_line(plan: Plan) -> None:
    found = preflight([plan], machine=False)
    assert not found.failed
    assert found.as_error() is None
    assert [(line.area, line.state) for line in found.lines] == [
        ("configuration", "ok"),
        ("values", "ok"),
        ("facts", "ok"),
    ]
    assert all(line.hint for line in found.lines)
    assert "strategy: fsdp2" in found.configurations["sync"]


def test_a_misspelt_key_names_scenario_key_and_nearest(plan: Plan) -> None:
    other = plan.model_copy(update={"scenario": "other"})
    found = preflight([plan.model_copy(update={"arguments": ("trainer.total_epoch=1",)}), other], machine=False)
    error = found.as_error()
    assert isinstance(error, ConfigError)
    assert "sync: trainer.total_epoch: verl's configuration has no key trainer.total_epoch" in str(error)
    assert "nearest: trainer.total_epochs" in str(error)
    assert {line.state for line in found.lines if line.scenario == "other"} == {"ok"}
    assert json.loads(found.json())["failed"] is True


def test_problems_of_all_areas_are_collected(plan: Plan) -> None:
    arguments = ("trainer.x=1", "algorithm.adv_estimator=grop", "actor_rollout_ref.actor.strategy=fsdp")
    found = preflight([plan.model_copy(update={"arguments": arguments})], machine=False)
    assert [(line.area, line.name) for line in found.lines if line.state == "failed"] == [
        ("configuration", "trainer.x"),
        ("values", "algorithm.adv_estimator"),
        ("facts", "strategy"),
    ]


def test_a_refused_configuration_is_not_looked_at_further(plan: Plan, fake_verl: Path) -> None:
    (fake_verl / "verl/trainer/config/model_engine/dp.yaml").unlink()
    found = preflight([plan], machine=False)
    assert [(line.area, line.state) for line in found.lines] == [("configuration", "failed"), ("values", "skipped")]
    assert found.configurations == {}


def test_a_verl_that_is_not_there_is_a_line_of_each_plan(plan: Plan, tmp_path: Path) -> None:
    lost = plan.model_copy(update={"verl": Verl(kind="checkout", name=str(tmp_path)), "scenario": "lost"})
    found = preflight([plan, lost], machine=False)
    (line,) = (line for line in found.lines if line.scenario == "lost")
    assert (line.area, line.state) == ("verl", "failed")
    assert "is no checkout of verl" in line.detail


def test_the_first_failed_line_says_whose_fault_it_is() -> None:
    line = Line(scenario="a", area="machine", name="x", state="failed", detail="d", hint="h", failure_class="image")
    device = Line(scenario="a", area="machine", name="y", state="failed", detail="e", hint="i", failure_class="device")
    assert isinstance(Preflight(lines=(line, device), configurations={}).as_error(), ImageError)
    error = Preflight(lines=(device, line), configurations={}).as_error()
    assert isinstance(error, DeviceError)
    assert "2 problems" in str(error)
    assert "→ h" in str(error)


def states(plan: Plan, devices: tuple[Device, ...] = (), *, required: bool = True) -> dict[str, tuple[str, str]]:
    lines = machine_lines(plan, devices, required=required)
    assert all(line.hint for line in lines)
    return {line.name: (line.state, line.detail) for line in lines}


@pytest.fixture
def host(plan: Plan) -> Plan:
    return plan.model_copy(update={"engine": "host", "image": None, "launcher": (sys.executable,), "devices": 2})


def test_a_machine_without_devices_fails_a_run_and_informs_a_look(host: Plan) -> None:
    lacking = host.model_copy(update={"models": {"actor": "/nowhere/model"}})
    assert states(lacking)["devices"] == ("failed", "no CUDA device here, 2 are needed")
    assert states(lacking)["models"][0] == "failed"
    look = states(lacking, required=False)
    assert look["devices"] == ("skipped", "no CUDA device here, 2 are needed")
    assert look["models"] == ("skipped", "not here: /nowhere/model")
    assert "failed" not in {state for state, _ in look.values()}


def test_devices_have_to_be_enough_and_free(host: Plan) -> None:
    busy = tuple(
        Device(kind="cuda", id=number, name="H200", memory_total=1, memory_used=1, busy_by=("python (7)",))
        for number in range(2)
    )
    assert states(host, GPUS[:2])["devices"] == ("ok", "2 of 2 free CUDA devices (H200)")
    assert states(host, GPUS[:1])["devices"] == ("failed", "1 CUDA devices here, 2 are needed")
    assert states(host, (busy[0], GPUS[1]))["devices"] == (
        "failed",
        "1 of 2 CUDA devices are free, 2 needed; 0: python (7)",
    )
    npus = tuple(Device(kind="npu", id=number, name="910B3", memory_total=1, memory_used=0) for number in range(8))
    assert states(host, npus)["devices"][0] == "failed"


def test_a_rehearsal_needs_no_device(host: Plan) -> None:
    assert states(host.model_copy(update={"rehearsal": True, "devices": 0}))["devices"][0] == "ok"


def test_files_are_there_or_made_by_a_step(host: Plan, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "model").mkdir()
    data = str(tmp_path / "train.parquet")
    plan = host.model_copy(update={"models": {"actor": str(tmp_path / "model")}, "data_files": (data,)})
    assert states(plan, GPUS)["models"][0] == "failed"  # a folder without config.json is no model
    (tmp_path / "model" / "config.json").touch()
    assert states(plan, GPUS)["models"][0] == "ok"
    assert states(plan, GPUS)["data"] == ("failed", f"not here: {data}")
    step = Step(name="gsm8k", argv=("python3",), creates=(data,))
    assert states(plan.model_copy(update={"steps": (step,)}), GPUS)["data"] == (
        "ok",
        f"made first: {data} (step gsm8k)",
    )
    made = plan.model_copy(update={"data_files": (str(cache / "train.parquet"),), "rehearsal": True})
    assert states(made)["data"] == ("ok", f"made first: {cache / 'train.parquet'} (the rehearsal)")


def test_a_missing_file_names_its_knob(host: Plan) -> None:
    plan = host.model_copy(update={"data_files": ("/nowhere/a",), "knobs": {"TRAIN_FILES": "/nowhere/a"}})
    (line,) = (line for line in machine_lines(plan, GPUS, required=True) if line.name == "data")
    assert line.hint == "TRAIN_FILES=PATH says where it is"


def test_limits_launcher_and_paths_are_looked_at(host: Plan, tmp_path: Path) -> None:
    plan = host.model_copy(
        update={
            "stall_limit_s": 120.0,
            "time_limit_s": 60.0,
            "launcher": ("no-such-uv", "run"),
            "environment": {"PYTHONPATH": f"{tmp_path}:/nowhere/Megatron-LM"},
        }
    )
    found = states(plan, GPUS)
    assert found["limits"][0] == "warning"
    assert found["launcher"] == ("failed", "there is no no-such-uv on PATH")
    assert found["PYTHONPATH"] == ("failed", "no such folder: /nowhere/Megatron-LM")
    assert states(plan.model_copy(update={"time_limit_s": 0.0}), GPUS)["limits"][0] == "failed"


def test_an_engine_that_does_not_answer_is_the_images_fault(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (line,) = (line for line in machine_lines(plan, GPUS, required=True) if line.name == "image")
    assert (line.state, line.failure_class) == ("failed", "image")
    assert "no Docker engine answers" in line.detail


@pytest.mark.parametrize("width", [30, 99, 100, 200])
def test_the_table_folds_and_loses_nothing(width: int) -> None:
    line = Line(scenario="sync", area="values", name="a.key", state="failed", detail="d" * 150, hint="h" * 90)
    output = io.StringIO()
    print_report([line], Console(file=output, force_terminal=True, width=width, color_system=None))
    text = output.getvalue()
    assert max(len(row) for row in text.splitlines()) <= max(width, len("preflight: 1 scenario, 1 failed"))
    assert (text.count("d" * 20) >= 1, text.count("h") >= 90, text.count("failed")) == (True, True, 2)
    assert text.count("d") >= 150


def test_without_a_terminal_a_line_stays_a_line(plan: Plan) -> None:
    second = plan.model_copy(update={"scenario": "second"})
    lines = (*preflight([plan, second], machine=False).lines, *machine_lines(plan, GPUS, required=True))
    output = io.StringIO()
    print_report(lines, Console(file=output, width=40))
    rows = output.getvalue().splitlines()
    assert all("→" in row for row in rows[:-1])
    assert rows[-1].startswith("preflight: 2 scenarios, ")
    assert sum("machine" in row and row.startswith("ok") for row in rows) == 1


def fake_python(tmp_path: Path, body: str) -> Path:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho called >>{tmp_path}/calls\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_verls_own_checks_are_asked_once(source: Source, tmp_path: Path) -> None:
    python = fake_python(tmp_path, """echo noise; echo '{"": [["trainer", "batch is odd"]]}'""")
    for _ in range(2):
        (problem,) = check_importable(python, {"PYTHONPATH": ""}, "a: 1", source)
        assert problem.name == "verl's own trainer"
        assert problem.message == "verl refuses it: batch is odd"
    assert (tmp_path / "calls").read_text() == "called\n"
    check_importable(python, {"PYTHONPATH": ""}, "a: 2", source)
    assert (tmp_path / "calls").read_text() == "called\ncalled\n"


def test_an_interpreter_that_cannot_is_unknown_and_not_kept(source: Source, tmp_path: Path) -> None:
    python = fake_python(tmp_path, "echo 'ModuleNotFoundError: verl' >&2; exit 1")
    for _ in range(2):
        (problem,) = check_importable(python, {}, "a: 1", source)
        assert problem.state == "failed"
        assert "unknown" in problem.message
        assert problem.message.endswith("ModuleNotFoundError: verl")
    assert (tmp_path / "calls").read_text() == "called\ncalled\n"
