"""A run as GitHub's step summary: what failed comes first, and nothing in it is taken for markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.runs.record import ImageRecord, Record, VerlRecord, write
from ci.runs.verdict import CheckResult
from ci.workflows.summary import VARIABLE, markdown, summarise


def record_of(**fields: object) -> Record:
    values: dict[str, object] = {
        "id": "20261201-fsdp2-abc",
        "scenario": "fsdp2",
        "target": "cuda",
        "engine": "host",
        "rehearsal": False,
        "image": ImageRecord(name="cuda", reference="cuda@sha256:0", digest=None, verified=False),
        "verl": VerlRecord(version="0.10.0.dev", commit="1dda039b9c6311889a9c9a26040677e1254814f9"),
        "devices": tuple(range(8)),
        "started": "2026-12-01T00:00:00+00:00",
        "duration_s": 1234.5,
        "status": "failed",
        "failure_class": "check",
        "exit_code": 0,
        "message": "a check did not hold",
        "hint": "look at metrics.jsonl",
        "notes": (),
        "steps": 2,
        "weight_syncs": (),
        "metrics": {},
        "checks": (
            CheckResult(name="finite", expected="finite", observed="finite", passed=True),
            CheckResult(name="stale", expected="at most 8", observed="9 | <b>step</b> `2`\n", passed=False),
        ),
        "reproduce": "nox -s e2e_fsdp2 -- --target cuda",
    }
    return Record.model_validate(values | fields)


def test_a_failed_run() -> None:
    text = markdown(record_of())
    assert text.startswith(
        "### e2e_fsdp2: failed\n\n8 × cuda, engine host, 2 steps in 1234 s, verl 0.10.0.dev 1dda039b"
    )
    assert "**check**: a check did not hold" in text
    assert "| finite | passed | finite | finite |" in text
    assert "| stale | **failed** | at most 8 | 9 \\| \\<b\\>step\\</b\\> \\`2\\` |" in text
    assert text.endswith("```\nnox -s e2e_fsdp2 -- --target cuda\n```\n")


def test_a_rehearsal_never_passes_for_a_run() -> None:
    text = markdown(record_of(rehearsal=True, target="cpu", status="passed", failure_class=None, devices=()))
    assert "### e2e_fsdp2: passed\n\na rehearsal on the CPU" in text
    assert "**check**" not in text


def test_the_newest_run_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    write(record_of(), run)
    (tmp_path / "runs" / "latest").symlink_to("one")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv(VARIABLE, str(summary))
    assert summarise(tmp_path / "runs") == markdown(record_of())
    assert summary.read_text() == f"before\n{markdown(record_of())}"


def test_a_job_that_ended_before_it_ran_has_nothing_to_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "summary.md"))
    assert summarise(tmp_path / "runs") is None
    assert not (tmp_path / "summary.md").exists()
