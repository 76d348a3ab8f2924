from __future__ import annotations

from pathlib import Path

import pytest

from ci.plan import Verl
from ci.verl.source import Source, find_source
from tests.unit.preflight.fake_verl import write_fake_verl


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("VERL_E2E_CACHE", str(folder))
    return folder


@pytest.fixture
def fake_verl(tmp_path: Path) -> Path:
    return write_fake_verl(tmp_path / "checkout")


@pytest.fixture
def source(fake_verl: Path) -> Source:
    return find_source(Verl(kind="checkout", name=str(fake_verl)))
