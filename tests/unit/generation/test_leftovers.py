"""The last step of a job ends what a dead run left behind, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ci.engines.owner import OWNER_VARIABLE, RUN_VARIABLE, Owner
from ci.workflows.leftovers import reap

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def dead_owner() -> str:
    program = "from ci.engines.owner import Owner; print(Owner.current().text)"
    return subprocess.run((sys.executable, "-c", program), check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(processes: list[subprocess.Popen[bytes]], owner: str, run: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(SLEEP, env={**os.environ, OWNER_VARIABLE: owner, RUN_VARIABLE: run})
    processes.append(process)
    return process


def test_a_dead_owners_process_is_ended_and_a_living_ones_is_not(
    started: list[subprocess.Popen[bytes]], dead_owner: str
) -> None:
    orphan = start(started, dead_owner, "left-over")
    own = start(started, Owner.current().text, "at-work")
    lines = reap()
    assert "ended 1 processes that run left-over had left behind" in lines
    assert orphan.wait(timeout=5) != 0
    assert own.poll() is None
    assert not [line for line in reap() if "left-over" in line]
