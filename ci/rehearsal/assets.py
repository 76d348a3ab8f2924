"""The model and the data of rehearsals, made once by the plug-in `verl_rehearsal.assets`."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ci.cache import digest
from ci.rehearsal.environment import REQUIREMENTS, Environment, Run, locked

PLUGINS = Path(__file__).parent.parent / "plugins"
_MAKER = PLUGINS / "verl_rehearsal" / "assets.py"
_MARKER = ".made-from"


@dataclass(frozen=True, kw_only=True)
class Assets:
    """What a rehearsal trains, and on what."""

    model: Path
    train_files: Path
    val_files: Path


def ensure_assets(*, environment: Environment, directory: Path, run: Run) -> Assets:
    """Return the assets in the folder, made where they are missing or were made from other versions.

    They appear as a whole: they are made beside the folder, which is then renamed.
    """
    made_from = digest(path.read_text(encoding="utf-8") for path in (_MAKER, REQUIREMENTS))
    if not _is_made(directory, made_from):
        with locked(directory):
            if not _is_made(directory, made_from):
                _make(directory, made_from, environment, run)
    return Assets(
        model=directory / "model", train_files=directory / "train.parquet", val_files=directory / "test.parquet"
    )


def _is_made(directory: Path, made_from: str) -> bool:
    try:
        return (directory / _MARKER).read_text(encoding="utf-8") == made_from
    except OSError:
        return False


def _make(directory: Path, made_from: str, environment: Environment, run: Run) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        run(
            (str(environment.python), "-m", "verl_rehearsal.assets", str(temporary)),
            {"PYTHONPATH": f"{PLUGINS}:{environment.site}", "HF_HUB_OFFLINE": "1"},
        )
        (temporary / _MARKER).write_text(made_from, encoding="utf-8")
        temporary.chmod(0o755)
        shutil.rmtree(directory, ignore_errors=True)
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
