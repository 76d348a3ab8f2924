"""The generated workflows, with images that are pinned and with what the lock holds today."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.scenarios.catalogue import load
from ci.workflows.generate import generated
from ci.workflows.settings import Settings, load_pins, load_settings
from tests.unit.plans import IMAGES


def workflows_of(texts: dict[str, str]) -> dict[str, Any]:
    """Return the parsed workflows by name; `on` is quoted in them, so no loader takes it for a boolean."""
    return {Path(path).stem: yaml.safe_load(text) for path, text in texts.items() if "/workflows/" in path}


def jobs_in(workflows: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield workflow, name and content of every job."""
    for workflow, content in workflows.items():
        for name, job in content["jobs"].items():
            yield workflow, name, job


@pytest.fixture(scope="session")
def settings() -> Settings:
    return load_settings()


@pytest.fixture(scope="session")
def texts(settings: Settings) -> dict[str, str]:
    return generated(load(), settings, load_pins(), IMAGES)


@pytest.fixture(scope="session")
def workflows(texts: dict[str, str]) -> dict[str, Any]:
    return workflows_of(texts)
