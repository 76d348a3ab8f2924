"""A catalogue and a ledger that a test may change."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from ci.coverage.ledger import DIRECTORY as LEDGER
from ci.scenarios.catalogue import Catalogue, load
from ci.scenarios.documents import DIRECTORY as SCENARIOS


@pytest.fixture
def today() -> date:
    """Return a day on which no waiver of the ledger has run out."""
    return date(2026, 12, 1)


@pytest.fixture
def catalogue() -> Catalogue:
    return dict(load())


@pytest.fixture
def scenario_files(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    return Path(shutil.copytree(SCENARIOS, tmp_path / "ci" / "scenarios", ignore=ignored))


@pytest.fixture
def ledger_files(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LEDGER, tmp_path / "coverage", ignore=shutil.ignore_patterns("*.py", "__pycache__")))
