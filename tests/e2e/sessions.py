"""Start a session of the noxfile as a user does: a process of its own, from the line of the README."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ci.caller import caller_environment

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "runs"


def start(*words: str, log: Path, root: Path = ROOT, **environment: str) -> subprocess.Popen[bytes]:
    """Start `exec nox -s WORDS` in a shell, as a workflow's step does, its output in a file."""
    given = {name: value for name, value in os.environ.items() if name not in {"CI", "GITHUB_ACTIONS"}}
    nox = shutil.which("nox")
    assert nox is not None, "the tests run inside `nox -s tests`, whose environment has nox"
    inherited = caller_environment(given, prefix="/nowhere")
    with log.open("wb") as file:
        return subprocess.Popen(
            ("bash", "-c", 'exec "$0" -s "$@"', nox, *words),
            cwd=root,
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def newest_record(scenario: str, *, runs: Path = RUNS) -> dict[str, Any]:
    directory = max(path for path in runs.glob(f"*-{scenario}-*") if path.is_dir())
    record: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return record
