from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci.rehearsal import assets as module
from ci.rehearsal.assets import ensure_assets
from ci.rehearsal.environment import Environment


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(
        python=tmp_path / "python", verl_version="0.9.1", verl_commit=None, site=tmp_path / "site", reused=True
    )


class Maker:
    """Stands for the plug-in: makes empty files, or is interrupted half way."""

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[str], Mapping[str, str]]] = []
        self.fail = False

    def __call__(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        self.calls.append((argv, variables))
        folder = Path(argv[-1])
        (folder / "model").mkdir()
        if self.fail:
            raise KeyboardInterrupt
        (folder / "train.parquet").write_text(str(len(self.calls)), encoding="utf-8")
        (folder / "test.parquet").touch()


def test_assets_are_made_once(environment: Environment, tmp_path: Path) -> None:
    make = Maker()
    assets = ensure_assets(environment=environment, directory=tmp_path / "assets", run=make)
    assert assets.model.is_dir()
    assert assets.train_files.is_file()
    assert assets.val_files.is_file()
    assert ensure_assets(environment=environment, directory=tmp_path / "assets", run=make) == assets
    ((argv, variables),) = make.calls
    assert argv[:3] == (str(tmp_path / "python"), "-m", "verl_rehearsal.assets")
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert (Path(variables["PYTHONPATH"].split(":")[0]) / "verl_rehearsal" / "assets.py").is_file()


def test_an_interrupted_making_leaves_nothing(environment: Environment, tmp_path: Path) -> None:
    make = Maker()
    make.fail = True
    with pytest.raises(KeyboardInterrupt):
        ensure_assets(environment=environment, directory=tmp_path / "assets", run=make)
    assert [path.name for path in tmp_path.iterdir()] == [".assets.lock"]
    make.fail = False
    assert ensure_assets(environment=environment, directory=tmp_path / "assets", run=make).train_files.is_file()


def test_other_versions_make_them_anew(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker()
    ensure_assets(environment=environment, directory=tmp_path / "assets", run=make)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("torch==2.14.0\n", encoding="utf-8")
    monkeypatch.setattr(module, "REQUIREMENTS", requirements)
    assets = ensure_assets(environment=environment, directory=tmp_path / "assets", run=make)
    assert assets.train_files.read_text(encoding="utf-8") == "2"
