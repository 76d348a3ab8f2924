"""Cancelling with real signals: nothing of the run stays, and it is over before GitHub loses its patience."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import psutil
import pytest

from ci.plan import Plan
from tests.engine.conftest import Driver, Start, traces, until
from tests.engine.plans import plan

FakePlan = Callable[..., Plan]
_PATIENCE_S = 7.0
_STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def _scattered(fake_plan: FakePlan, start: Start, tmp_path: Path) -> Driver:
    """Start a run whose processes went everywhere and ignore SIGTERM."""
    folder = tmp_path / "runs"
    chosen = fake_plan("scatters", str(folder))
    mounts = tuple(mount.model_copy(update={"path": str(folder), "read_only": False}) for mount in chosen.mounts)
    driver = start(chosen.model_copy(update={"mounts": (*chosen.mounts, *mounts)}))
    until((folder / "scattered").exists)
    return driver


def _stubborn() -> list[psutil.Process]:
    """Return the processes that ignore SIGTERM, found by their code, since some have no mark."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if _STUBBORN in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.fixture(autouse=True)
def _end_what_a_failed_test_leaves() -> Iterator[None]:
    yield
    for process in _stubborn():
        process.kill()


def _ray_directories() -> set[Path]:
    return set(Path("/tmp").glob("verl-e2e.*"))


@pytest.mark.parametrize(
    "schedule",
    [
        ((0.0, signal.SIGINT),),
        ((0.0, signal.SIGTERM),),
        ((0.0, signal.SIGINT), (1.0, signal.SIGTERM), (1.5, signal.SIGINT)),
        ((0.0, signal.SIGINT), (7.5, signal.SIGTERM), (10.0, signal.SIGKILL)),
    ],
    ids=["ctrl-c", "sigterm", "impatient", "github"],
)
def test_a_cancelled_run_leaves_nothing(
    fake_plan: FakePlan,
    start: Start,
    tmp_path: Path,
    client: docker.DockerClient,
    schedule: tuple[tuple[float, signal.Signals], ...],
) -> None:
    directories = _ray_directories()
    driver = _scattered(fake_plan, start, tmp_path)
    assert len(_stubborn()) == 4
    began = time.monotonic()
    for after, number in schedule:
        while (left := began + after - time.monotonic()) > 0 and driver.process.poll() is None:
            time.sleep(min(left, 0.02))
        if driver.process.poll() is None:
            driver.send(number)
    code = driver.wait()
    took = time.monotonic() - began
    assert code == 130, driver.terminal
    assert took < _PATIENCE_S
    assert driver.record.status == driver.record.failure_class == "cancelled"
    assert f"cancelled by {schedule[0][1].name}" in str(driver.record.message)
    assert _stubborn() == []
    assert traces(driver.record.id, client) == []
    assert _ray_directories() <= directories


def test_the_next_start_reaps_what_a_killed_one_left(
    fake_plan: FakePlan, start: Start, tmp_path: Path, client: docker.DockerClient
) -> None:
    directories = _ray_directories()
    driver = _scattered(fake_plan, start, tmp_path)
    run_id = driver.directory.name
    driver.send(signal.SIGKILL)
    driver.wait()
    # The trainer itself is gone at once on the host, where the kernel ends it together with its starter.
    assert any("container" in trace for trace in traces(run_id, client)) or not any(
        "chats" in trace or "scatters" in trace for trace in traces(run_id, client)
    )
    assert traces(run_id, client) != []
    second = start(fake_plan("passes"))
    assert second.wait() == 0, second.terminal
    assert traces(run_id, client) == []
    assert _ray_directories() <= directories
    assert any("left behind" in note for note in second.record.notes)


def test_a_start_leaves_the_runs_of_the_living_alone(
    fake_plan: FakePlan, start: Start, client: docker.DockerClient, tmp_path: Path
) -> None:
    first = start(fake_plan("chats"), runs=tmp_path / "first")
    until(lambda: (tmp_path / "first" / "latest").exists() and "still training" in first.console)
    before = traces(first.directory.name, client)
    second = start(fake_plan("passes"), runs=tmp_path / "second")
    assert second.wait() == 0
    assert second.record.notes == ()
    assert traces(first.directory.name, client) == before
    first.send(signal.SIGINT)
    assert first.wait() == 130


def test_a_kept_run_leaves_its_ray_directory(start: Start, tmp_path: Path) -> None:
    before = _ray_directories()
    driver = start(plan("passes", keep=True))
    assert driver.wait() == 0
    (kept,) = _ray_directories() - before
    second = start(plan("passes"))
    assert second.wait() == 0
    assert kept.exists(), "what was kept on purpose is not an orphan"
    kept.rmdir()
