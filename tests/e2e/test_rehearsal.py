"""The README's line trains with unmodified verl on this machine, and can be ended at any time."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.sessions import RUNS, newest_record, start

pytestmark = pytest.mark.timeout(1200)


def test_the_readmes_line_rehearses_fsdp2(tmp_path: Path) -> None:
    log = tmp_path / "log"
    session = start("e2e_fsdp2", log=log)
    assert session.wait() == 0, log.read_text()[-5000:]
    record = newest_record("fsdp2")
    assert (record["status"], record["rehearsal"]) == ("passed", True)
    assert (record["target"], record["engine"]) == ("cpu", "host")
    assert record["verl"]["version"] == "0.9.1"
    assert record["steps"] == 2
    assert len(record["weight_syncs"]) >= 2
    for sync in record["weight_syncs"]:
        assert sync["equal"]
        assert len(set(sync["trainer_digests"]) | set(sync["rollout_digests"])) == 1
    digests = [sync["trainer_digests"][0] for sync in record["weight_syncs"]]
    assert len(set(digests)) == len(digests), "no weights changed between two syncs: nothing was trained"
    assert record["checks"]
    assert all(check["passed"] for check in record["checks"])
    assert all(math.isfinite(value["last"]) for value in record["metrics"].values())
    directory = RUNS / record["id"]
    assert (RUNS / "latest").resolve() == directory.resolve()
    assert {"run.json", "plan.json", "console.log", "metrics.jsonl", "config.yaml", "events.jsonl"} <= {
        path.name for path in directory.iterdir()
    }
    steps = [json.loads(line)["step"] for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2]
    text = log.read_text(errors="replace")
    assert "a rehearsal on the CPU" in text
    assert "fsdp2 passed after" in text


def test_githubs_sequence_of_signals_ends_a_rehearsal_and_all_of_it(tmp_path: Path) -> None:
    session = start("e2e_fsdp2", "--", "--target", "cpu", log=tmp_path / "log")
    deadline = time.monotonic() + 300
    while not _of_the_newest_run("gcs_server"):
        assert time.monotonic() < deadline, "Ray did not start"
        assert session.poll() is None, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.5)
    began = time.monotonic()
    session.send_signal(signal.SIGINT)
    try:
        session.wait(7.5)
    except subprocess.TimeoutExpired:
        session.send_signal(signal.SIGTERM)
        session.wait(2.5)
    assert time.monotonic() - began < 7
    assert session.returncode == 130
    record = newest_record("fsdp2")
    assert (record["status"], record["failure_class"]) == ("cancelled", "cancelled")
    assert not _marked(record["id"])


def _of_the_newest_run(name: str) -> list[psutil.Process]:
    runs = [path.name for path in RUNS.glob("*-fsdp2-*") if path.is_dir()]
    return [process for process in _marked(max(runs)) if process.name() == name] if runs else []


def _marked(run_id: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("VERL_E2E_RUN") == run_id:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("scenario", ["megatron", "opd", "genrm", "disrm", "fsdp2_ascend", "megatron_ascend"])
def test_what_cannot_be_rehearsed_runs_its_preflight_and_does_not_pass(scenario: str, tmp_path: Path) -> None:
    session = start(f"e2e_{scenario}", "--", "--target", "cpu", log=tmp_path / "log")
    assert session.wait() == 0, (tmp_path / "log").read_text()[-3000:]
    assert newest_record(scenario)["status"] == "preflight_only"
    assert "cannot be rehearsed yet" in (tmp_path / "log").read_text()
