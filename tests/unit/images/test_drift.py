from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

from ci.errors import ImageError
from ci.images.drift import differences, undrifted
from ci.images.identity import Identity

INSTALLED = {found.metadata["Name"]: found.version for found in distributions()}


def identity(**changes: str) -> Identity:
    return Identity(
        name="cuda", content_hash="1", source_commit="abc", base="base", versions={"torch": "2.11.0", **changes}
    )


@pytest.fixture
def python3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A python3 that is first on PATH, and says which packages it has."""

    def answer(text: str) -> None:
        (tmp_path / "python3").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (tmp_path / "python3").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return answer


def test_an_image_that_stays_as_it_was_built(python3: Callable[..., None]) -> None:
    python3('{"torch": "2.11.0", "verl": "0.9.1"}')
    with undrifted(identity(verl="0.9.0")):
        pass


def test_a_job_that_replaced_a_package_is_refused_before_the_run(python3: Callable[..., None]) -> None:
    python3('{"torch": "2.12.0"}')
    expected = "a step before the run changed 2 packages"
    with pytest.raises(ImageError, match=expected) as caught, undrifted(identity(ray="2.60.0")):
        pytest.fail("the run was started")
    assert "  - ray: 2.60.0 → absent\n  - torch: 2.11.0 → 2.12.0" in str(caught.value)


def test_a_data_step_that_replaced_a_package_fails_the_run(python3: Callable[..., None]) -> None:
    python3('{"torch": "2.11.0"}')
    expected = "the run itself, or a data step of it, changed 1 package of the image cuda"
    with pytest.raises(ImageError, match=expected), undrifted(identity()):
        python3('{"torch": "2.11.0", "numpy": "3.0"}')


def test_an_image_without_a_python(python3: Callable[..., None]) -> None:
    python3("no json")
    with pytest.raises(ImageError, match="python3 cannot say what it has"), undrifted(identity()):
        pass


def test_outside_an_image_nothing_is_compared(python3: Callable[..., None]) -> None:
    python3("no json")
    with undrifted(None):
        pass


def test_the_real_python_answers() -> None:
    with undrifted(identity().model_copy(update={"versions": INSTALLED})):
        pass


def test_the_subject_of_a_run_may_change() -> None:
    assert differences({"verl": "0.9.0", "a": "1"}, {"verl": "0.9.1", "a": "1"}) == ()
