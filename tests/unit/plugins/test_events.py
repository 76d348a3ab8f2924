from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins.conftest import PLUGINS


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.delenv("VERL_E2E_EVENTS", raising=False)
    return importlib.import_module("verl_observer.events")


def test_without_a_file_nothing_is_written(events: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not events.enabled()
    events.emit("stage", name="ray")
    assert list(tmp_path.iterdir()) == []


def test_an_event_says_who_and_when(events: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_E2E_EVENTS", str(tmp_path / "events.jsonl"))
    events.emit("metrics", metrics={"a": math.nan, "b": math.inf})
    text = (tmp_path / "events.jsonl").read_text(encoding="utf-8")
    assert '"a": NaN, "b": Infinity' in text
    assert {"time", "pid", "event", "metrics"} == set(json.loads(text))


def test_lines_of_many_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = "from verl_observer.events import emit\nfor i in range(200): emit('x', number=i, filler='y' * 5000)"
    environment = {"PYTHONPATH": str(PLUGINS), "VERL_E2E_EVENTS": str(path)}
    # Without verl the observer reports that it has nothing to observe; those lines have to stay whole as well.
    processes = [
        subprocess.Popen((sys.executable, "-c", code), env=environment, stderr=subprocess.DEVNULL) for _ in range(4)
    ]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    numbers = sorted((line["pid"], line["number"]) for line in lines if line["event"] == "x")
    assert numbers == [(pid, i) for pid in sorted(process.pid for process in processes) for i in range(200)]


def test_a_file_that_cannot_be_written_is_one_line_on_standard_error(
    events: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERL_E2E_EVENTS", str(tmp_path / "no such folder" / "events.jsonl"))
    events.emit("stage", name="ray")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[verl_observer] cannot write event stage")
