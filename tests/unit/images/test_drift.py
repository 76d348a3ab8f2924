from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

from ci.engines.host import HostWorkspace
from ci.errors import ImageError
from ci.images.drift import differences, installed, of_changes
from tests.unit.plans import IDENTITY


@pytest.fixture
def python3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A python3 that is first on PATH, and says which packages it has."""

    def answer(text: str) -> None:
        (tmp_path / "python3").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (tmp_path / "python3").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return answer


def workspace(**versions: str) -> HostWorkspace:
    inside = IDENTITY.model_copy(update={"versions": versions})
    return HostWorkspace(run_id="test", environment=dict(os.environ), before=set(), reaped=(), inside=inside)


def test_a_machine_that_is_as_its_image_was_built(python3: Callable[[str], None]) -> None:
    python3('{"torch": "2.11.0", "verl": "0.9.1"}')
    assert workspace(torch="2.11.0", verl="0.9.0").drift() == ()


def test_a_machine_whose_packages_were_replaced(python3: Callable[[str], None]) -> None:
    python3('{"torch": "2.12.0", "numpy": "3.0"}')
    assert workspace(torch="2.11.0", ray="2.60.0").drift() == (
        "numpy: absent → 3.0",
        "ray: 2.60.0 → absent",
        "torch: 2.11.0 → 2.12.0",
    )


def test_an_image_without_a_python(python3: Callable[[str], None]) -> None:
    python3("no json")
    with pytest.raises(ImageError, match="python3 cannot say what it has"):
        workspace().drift()


def test_the_real_python_answers() -> None:
    here = {found.metadata["Name"]: found.version for found in distributions()}
    assert differences(here, installed(os.environ)) == ()


def test_packages_are_seen_among_a_containers_changes() -> None:
    site = "/opt/verl/lib/python3.12/site-packages"
    changes = (
        {"Path": f"{site}/torch-2.11.0.dist-info", "Kind": 2},
        {"Path": f"{site}/torch-2.12.0.dist-info", "Kind": 1},
        {"Path": f"{site}/torch-2.12.0.dist-info/RECORD", "Kind": 1},
        {"Path": f"{site}/verl-0.9.1.dist-info", "Kind": 1},
        {"Path": site, "Kind": 0},
        {"Path": "/tmp/.local/lib/python3.12/site-packages/flash_attn-2.8.3.dist-info", "Kind": 1},
        {"Path": "/tmp/ray/session/logs", "Kind": 1},
    )
    assert of_changes(changes) == ("flash-attn: absent → 2.8.3", "torch: 2.11.0 → 2.12.0")
