"""Each way a run can end, with both engines and real processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from ci.errors import FailureClass
from ci.plan import Plan, Step
from ci.runs.verdict import Status
from tests.engine.conftest import Start, traces
from tests.engine.plans import plan

FakePlan = Callable[..., Plan]


def test_a_run_that_passes(fake_plan: FakePlan, start: Start, client: docker.DockerClient) -> None:
    driver = start(fake_plan("passes"))
    assert driver.wait() == 0, driver.terminal
    record = driver.record
    assert (record.status, record.failure_class, record.exit_code) == ("passed", None, 0)
    assert record.rehearsal
    assert record.steps == 2
    assert [sync.version for sync in record.weight_syncs if sync.equal] == [0, 1, 2]
    assert [check.passed for check in record.checks] == [True] * 4
    assert record.metrics["perf/total_num_tokens"].last == 100
    assert (record.image is None) == (record.engine == "host")
    if record.image is not None:
        assert str(record.image.digest).startswith("sha256:")
    assert driver.console.endswith("the last line has no end")
    lines = (driver.directory / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert {"config.yaml", "plan.json", "events.jsonl"} < {path.name for path in driver.directory.iterdir()}
    assert driver.terminal.startswith(f"e2e_fake: target cpu, a rehearsal on the CPU; engine {record.engine}")
    assert str(driver.directory) in driver.terminal.splitlines()[-1]
    assert traces(record.id, client) == []


@pytest.mark.parametrize(
    ("behaviour", "status", "failure_class", "exit_code", "says"),
    [
        ("fails", "failed", "product", 3, "trainer ended with exit code 3: ValueError: batch of 3 for 2 ranks"),
        ("does_nothing", "failed", "check", 0, "4 of 4 checks failed (steps, weight_syncs, finite, trained)"),
        ("reports_nan", "failed", "check", 0, "finite: 4 samples; actor/grad_norm is nan in step 2"),
        ("unequal", "failed", "check", 0, "version 1: trainer abc, rollout abd"),
        ("rollout_raises", "failed", "product", None, "a rollout server raised, and verl would retry for ever"),
    ],
)
def test_a_run_that_fails(
    fake_plan: FakePlan,
    start: Start,
    behaviour: str,
    status: Status,
    failure_class: FailureClass,
    exit_code: int | None,
    says: str,
) -> None:
    driver = start(fake_plan(behaviour))
    assert driver.wait() == {"product": 10, "check": 11}[failure_class]
    record = driver.record
    assert (record.status, record.failure_class, record.exit_code) == (status, failure_class, exit_code)
    assert says in str(record.message)
    assert says in driver.terminal
    assert "reproduce: nox -s e2e_fake" in driver.terminal


def test_a_run_that_hangs_leaves_its_stacks(fake_plan: FakePlan, start: Start) -> None:
    driver = start(fake_plan("hangs", stall_limit_s=2.0))
    assert driver.wait() == 124
    assert (driver.record.status, driver.record.failure_class) == ("failed", "timeout")
    assert "neither its log nor its events moved for 0:02" in str(driver.record.message)
    assert "wait_for_a_rank_that_never_comes" in (driver.directory / "stacks.txt").read_text()
    assert "noise of being ended" in driver.console
    _, _, report = driver.terminal.partition("last lines of the log:")
    assert "│ waiting for a collective" in report
    assert "noise of being ended" not in report


def test_a_run_that_takes_too_long_is_ended(fake_plan: FakePlan, start: Start, client: docker.DockerClient) -> None:
    driver = start(fake_plan("chats", time_limit_s=3.0))
    assert driver.wait() == 124
    assert "ended by its time limit of 0:03 while starting the trainer" in str(driver.record.message)
    assert driver.record.duration_s < 10
    assert "chats" in (driver.directory / "stacks.txt").read_text()
    assert traces(driver.record.id, client) == []


def test_a_gigabyte_of_log(fake_plan: FakePlan, start: Start, record_property: Callable[[str, object], None]) -> None:
    megabytes = 1024 if fake_plan("passes").engine == "host" else 256
    driver = start(fake_plan("prints", str(megabytes), time_limit_s=200.0))
    assert driver.wait(200) == 0, driver.terminal[-2000:]
    log = driver.directory / "console.log"
    assert log.stat().st_size == (megabytes << 20) + (8 << 20) + len(
        "\nthe end of the log\nstep:1 - actor/grad_norm:0.5\nstep:2 - actor/grad_norm:0.5\nthe last line has no end"
    )
    with log.open("rb") as file:
        file.seek(-200, 2)
        assert file.read().endswith(b"the last line has no end")
    peak_mib = int((driver.runs / "peak_mib").read_text())
    record_property("peak_mib", peak_mib)
    record_property("seconds", driver.record.duration_s)
    assert peak_mib < 250, "the log has to pass through, not to be kept"
    assert driver.record.duration_s < 120
    assert driver.output.stat().st_size > log.stat().st_size


def test_data_steps_run_unless_their_files_are_there(fake_plan: FakePlan, start: Start, tmp_path: Path) -> None:
    here, absent = tmp_path / "runs" / "here", tmp_path / "runs" / "absent"
    here.parent.mkdir()
    here.touch()
    chosen = fake_plan("passes")
    command = (*chosen.launcher, "-m", "fake_trainer", "creates")
    steps = (
        Step(name="skipped", argv=(*command, str(here)), creates=(str(here),)),
        Step(name="made", argv=(*command, str(absent)), creates=(str(absent),)),
    )
    mounts = tuple(mount.model_copy(update={"path": str(here.parent), "read_only": False}) for mount in chosen.mounts)
    driver = start(chosen.model_copy(update={"steps": steps, "mounts": (*chosen.mounts, *mounts)}))
    assert driver.wait() == 0, driver.terminal
    assert absent.read_text() == "made"
    assert here.read_text() == ""
    assert driver.console.count("making data") == 1


def test_a_data_step_that_creates_nothing_fails(start: Start, tmp_path: Path) -> None:
    chosen = plan("passes")
    step = Step(
        name="gsm8k",
        argv=(*chosen.launcher, "-m", "fake_trainer", "creates_nothing", "x"),
        creates=(str(tmp_path / "x"),),
    )
    driver = start(chosen.model_copy(update={"steps": (step,)}))
    assert driver.wait() == 10
    assert f"the data step gsm8k ended well but did not create {tmp_path / 'x'}" in str(driver.record.message)
    assert "step:1" not in driver.console


def test_a_program_that_is_not_there(start: Start) -> None:
    driver = start(plan("passes", launcher=("no-such-python",)))
    assert driver.wait() == 12
    assert driver.record.message == (
        "trainer ended with exit code 127: cannot start no-such-python: No such file or directory"
    )
