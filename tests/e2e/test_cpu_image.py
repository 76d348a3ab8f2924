"""The cpu image from its Dockerfile to a run by its digest, with a real engine, a real registry and a Debian base."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from ci.images import lock
from tests.e2e.sessions import ROOT, newest_record, start
from tests.engine.images.registry import Registry, served

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the suite, whose lock may be written."""
    copy = tmp_path / "suite"
    for name in ("ci", "containers", "noxfile.py", "tasks.py", "pyproject.toml"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with served(tmp_path / "registry") as registry:
        yield registry


def test_a_rebuilt_image_is_pinned_and_runs_by_its_digest(
    repository: Path, registry: Registry, debian: str, tmp_path: Path
) -> None:
    environment = os.environ | {"VERL_E2E_REGISTRY": f"{registry.host}/ci", "VERL_E2E_CACHE": str(tmp_path / "cache")}

    def inv(*words: str, fails: bool = False) -> str:
        done = subprocess.run(
            ("inv", *words), cwd=repository, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def rehearse(log: str) -> tuple[int, str]:
        words = ("e2e_fsdp2", "--", "--target", "cpu", "--engine", "docker")
        session = start(*words, log=tmp_path / log, root=repository, CI="true", VERL_E2E_CACHE=str(tmp_path / "cache"))
        return session.wait(), (tmp_path / log).read_text(errors="replace")

    code, text = rehearse("unpinned")
    assert code != 0
    assert "cpu is not pinned" in text
    assert "refused under CI" in text
    assert newest_record("fsdp2", runs=repository / "runs")["failure_class"] == "image"

    assert ": built (" in inv("images.build", "cpu", "--base", debian)
    assert "nothing has changed" in inv("images.build", "cpu", "--base", debian)
    verified = inv("images.verify", "cpu")
    assert "a collective of 2" in verified
    assert f"built on {debian}" in verified
    inv("images.push", "cpu")
    assert ", verified" in inv("images.pin", "cpu")
    entry = lock.read(repository)["cpu"]
    assert f"@{entry.digest}" in inv("images.check")

    code, text = rehearse("pinned")
    assert code == 0, text[-5000:]
    record = newest_record("fsdp2", runs=repository / "runs")
    assert (record["status"], record["engine"], record["rehearsal"]) == ("passed", "docker", True)
    assert record["image"]["digest"] == entry.digest
    assert record["image"]["reference"] == f"{entry.repository}@{entry.digest}"
    assert record["image"]["verified"]
    assert record["steps"] == 2
    assert all(sync["equal"] for sync in record["weight_syncs"])
    assert all(check["passed"] for check in record["checks"])
    mine = [path for path in (repository / "runs").rglob("*") if path.lstat().st_uid != os.getuid()]
    assert mine == []

    assert entry.digest is not None
    assert entry.repository is not None
    registry.delete(entry.repository.removeprefix(f"{registry.host}/"), entry.digest)
    assert entry.digest in inv("images.check", fails=True)
    client = docker.from_env(timeout=300)
    for image in client.images.list(entry.repository, all=True):
        client.images.remove(str(image.id), force=True)
    client.close()
