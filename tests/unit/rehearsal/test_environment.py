from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.plan import Verl
from ci.rehearsal import environment as module
from ci.rehearsal.environment import Environment, ensure_environment
from ci.rehearsal.location import REQUIREMENTS

RELEASE = Verl(kind="release", name="0.9.1")


class Commands:
    """Runs the making of virtual environments for real, and only notes what pip is asked for."""

    def __init__(self) -> None:
        self.pip: list[Sequence[str]] = []
        self.fail = False

    def __call__(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        if "pip" in argv:
            self.pip.append(argv)
            if self.fail:
                raise KeyboardInterrupt
            time.sleep(0.2)
        else:
            subprocess.run((*argv, "--without-pip"), check=True, capture_output=True)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERL_E2E_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for version in ("0.9.0", "0.9.1"):
        _package(tmp_path / "releases" / f"verl-{version}", version)
    return tmp_path


def _package(root: Path, version: str) -> Path:
    for name in ("verl/__init__.py", "verl/trainer/main_ppo.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "verl" / "version").mkdir()
    (root / "verl" / "version" / "version").write_text(version + "\n", encoding="utf-8")
    return root


def _version(environment: Environment) -> str:
    code = (
        "import pathlib, verl; print(pathlib.Path(verl.__file__).with_name('version').joinpath('version').read_text())"
    )
    done = subprocess.run((environment.python, "-I", "-c", code), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_environment_is_made_once_and_then_reused_at_once(cache: Path) -> None:
    run = Commands()
    first = ensure_environment(verl=RELEASE, cache=cache, run=run)
    assert (first.reused, first.verl_version, _version(first)) == (False, "0.9.1", "0.9.1")
    start = time.perf_counter()
    second = ensure_environment(verl=RELEASE, cache=cache, run=run)
    assert time.perf_counter() - start < 0.1
    assert second.reused
    assert second.python == first.python == cache / "rehearsal" / "verl-0.9.1" / "bin" / "python"
    assert len(run.pip) == 1


def test_another_release_installs_nothing_again(cache: Path) -> None:
    run = Commands()
    ensure_environment(verl=RELEASE, cache=cache, run=run)
    other = ensure_environment(verl=Verl(kind="release", name="0.9.0"), cache=cache, run=run)
    assert (other.reused, _version(other)) == (False, "0.9.0")
    assert len(run.pip) == 1


def test_what_is_installed_once_can_be_imported_from_every_release(cache: Path) -> None:
    run = Commands()
    environment = ensure_environment(verl=RELEASE, cache=cache, run=run)
    (shared,) = (cache / "rehearsal" / "verl-checkout").glob("lib/python3.*/site-packages")
    (shared / "of_all.py").touch()
    subprocess.run((environment.python, "-I", "-c", "import of_all"), check=True)


def test_collecting_garbage_is_put_off(cache: Path) -> None:
    environment = ensure_environment(verl=RELEASE, cache=cache, run=Commands())
    code = "import gc; print(gc.get_threshold()[0])"
    done = subprocess.run((environment.python, "-I", "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "10000"


def test_a_checkout_stays_untouched(cache: Path, tmp_path: Path) -> None:
    checkout = _package(tmp_path / "checkout", "0.10.0.dev")
    before = sorted(checkout.rglob("*"))
    environment = ensure_environment(verl=Verl(kind="checkout", name=str(checkout)), cache=cache, run=Commands())
    assert (environment.site, environment.verl_version) == (checkout, "0.10.0.dev")
    assert sorted(checkout.rglob("*")) == before


def test_an_interrupted_making_is_made_again(cache: Path) -> None:
    run = Commands()
    run.fail = True
    with pytest.raises(KeyboardInterrupt):
        ensure_environment(verl=RELEASE, cache=cache, run=run)
    run.fail = False
    assert not ensure_environment(verl=RELEASE, cache=cache, run=run).reused
    assert len(run.pip) == 2
    assert ensure_environment(verl=RELEASE, cache=cache, run=run).reused


def test_other_requirements_make_it_anew(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Commands()
    ensure_environment(verl=RELEASE, cache=cache, run=run)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("torch==2.14.0\n", encoding="utf-8")
    monkeypatch.setattr(module, "REQUIREMENTS", requirements)
    assert not ensure_environment(verl=RELEASE, cache=cache, run=run).reused
    assert len(run.pip) == 2


def test_those_who_want_it_at_once_wait_for_the_first(cache: Path) -> None:
    run = Commands()
    made: list[Environment] = []
    threads = [
        threading.Thread(target=lambda: made.append(ensure_environment(verl=RELEASE, cache=cache, run=run)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(run.pip) == 1
    assert sorted(environment.reused for environment in made) == [False, True, True]


def test_pip_takes_no_paths_from_the_caller(cache: Path) -> None:
    run = Commands()
    ensure_environment(verl=RELEASE, cache=cache, run=run)
    ((_, *arguments),) = run.pip
    assert arguments[:3] == ["-I", "-m", "pip"]
    assert str(REQUIREMENTS) in arguments


def test_no_usable_python_is_said_with_reasons(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\necho '[\"/usr/bin/python3.9\", 3, 9, true]'\n", encoding="utf-8")
    old.chmod(0o755)
    with pytest.raises(ConfigError) as caught:
        ensure_environment(verl=RELEASE, cache=cache, python=str(old), run=Commands())
    assert "3.11, 3.12, 3.13" in caught.value.message
    assert f"{old} is Python 3.9" in caught.value.message
    with pytest.raises(ConfigError, match="no-such-python is not there"):
        ensure_environment(verl=RELEASE, cache=cache, python="no-such-python", run=Commands())


def test_a_named_python_is_used(cache: Path) -> None:
    ensure_environment(verl=RELEASE, cache=cache, python=sys.executable, run=Commands())
    python = cache / "rehearsal" / "verl-0.9.1" / "bin" / "python"
    assert python.resolve() == Path(sys.executable).resolve()
    assert ensure_environment(verl=RELEASE, cache=cache, python=sys.executable, run=Commands()).reused


def test_every_requirement_is_pinned() -> None:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    loose = [line for line in lines if not line.startswith("#") and line.count("==") != 1]
    assert loose == []
    names = {line.split("==")[0] for line in lines}
    assert {"torch", "ray", "transformers", "TransferQueue", "cachetools", "uvicorn", "fastapi"} <= names
    assert not {"torchvision", "verl"} & names
