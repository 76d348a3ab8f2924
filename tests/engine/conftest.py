"""What the engine tests share: an engine's image, and runs in processes of their own."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest

from ci.plan import Plan
from ci.runs import record
from ci.runs.record import Record
from tests.engine import podman, python_image
from tests.engine.plans import ROOT, plan


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A process that carries out a plan, as nox does."""

    process: subprocess.Popen[bytes]
    runs: Path
    output: Path

    def wait(self, timeout_s: float = 90) -> int:
        return self.process.wait(timeout_s)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def directory(self) -> Path:
        return (self.runs / "latest").resolve()

    @property
    def record(self) -> Record:
        return record.read(self.directory)

    @property
    def terminal(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def console(self) -> str:
        return (self.directory / "console.log").read_text(errors="replace")


Start = Callable[..., Driver]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs an engine with Docker and with podman, and what any engine does with the host's, too."""
    if "fake_plan" in metafunc.fixturenames:
        pairs = [("host", "docker"), ("docker", "docker"), ("docker", "podman")]
        metafunc.parametrize(
            ("fake_plan", "engine"), pairs, indirect=True, ids=["host", "docker", "podman"], scope="session"
        )
    elif "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", ["docker", "podman"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine that DOCKER_HOST or the docker context names, or a podman of the tests' own; without it they fail."""
    if request.param == "docker":
        yield "docker"
        return
    with podman.service() as address, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address)
        yield "podman"


@pytest.fixture(scope="session")
def client(engine: str) -> Iterator[docker.DockerClient]:  # says where the client connects to
    client = docker.from_env(timeout=60)
    client.ping()
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(client: docker.DockerClient) -> Iterator[str]:
    """An image with Python in it, made from this machine."""
    tag = f"python-{secrets.token_hex(4)}"
    python_image.build(client, "verl-e2e-test", tag)
    yield f"verl-e2e-test:{tag}"
    client.images.remove(f"verl-e2e-test:{tag}", force=True)


@pytest.fixture(scope="session")
def fake_plan(request: pytest.FixtureRequest, engine: str) -> Callable[..., Plan]:  # the image's
    """Plans of fake trainers, for each engine in turn."""

    def make(*behaviour: str, **changes: Any) -> Plan:
        if request.param == "docker":
            changes.setdefault("image", request.getfixturevalue("image"))
        return plan(*behaviour, **changes)

    return make


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a driver; those still there at the test's end are killed."""
    started: list[Driver] = []

    def start_driver(
        chosen: Plan,
        *,
        runs: Path | None = None,
        environment: dict[str, str] | None = None,
        before: tuple[str, ...] = (),
        stdout: int | None = None,
    ) -> Driver:
        number = len(started)
        plan_file, output = tmp_path / f"plan{number}.json", tmp_path / f"output{number}.txt"
        plan_file.write_text(chosen.model_dump_json())
        runs = runs or tmp_path / "runs"
        runs.mkdir(exist_ok=True)
        with output.open("wb") as file:
            process = subprocess.Popen(
                (*before, sys.executable, "-m", "tests.engine.driver", str(plan_file), str(runs)),
                cwd=ROOT,
                stdout=file if stdout is None else stdout,
                stderr=subprocess.STDOUT,
                env=os.environ | (environment or {}),
            )
        started.append(Driver(process=process, runs=runs, output=output))
        return started[-1]

    yield start_driver
    for driver in started:
        driver.process.kill()
        driver.process.wait()
        if driver.process.stdout is not None:
            driver.process.stdout.close()


def until(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Wait until the condition holds; the test fails when it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def traces(run_id: str, client: docker.DockerClient) -> list[str]:
    """Return what is left of a run on this machine: processes and containers."""
    containers = client.containers.list(all=True, filters={"label": f"verl-e2e.run={run_id}"}, ignore_removed=True)
    return [*(f"container {container.name}" for container in containers), *marked_processes(run_id)]


def marked_processes(run_id: str) -> list[str]:
    """Return the processes that are left of a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("VERL_E2E_RUN") == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"process {process.pid} {process.cmdline()}")
        except psutil.Error:
            continue
    return found
