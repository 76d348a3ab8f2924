"""What was covered at another commit."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from ci.coverage.claims import Part
from ci.errors import ConfigError
from ci.scenarios.documents import Reader, scenario_names

ROOT = Path(__file__).parents[2]
_SCENARIOS = "ci/scenarios"


def covered_at(reference: str, *, root: Path = ROOT) -> dict[Part, tuple[str, ...]]:
    """Return what the scenarios of a commit claimed; nothing where it had none.

    The files are read as plain data: the commit's own model may have been another one.

    Raises:
        ConfigError: when git knows no such commit, or its scenarios cannot be read.
    """
    if reference.startswith("-"):
        raise ConfigError(f"`{reference}` is no commit")
    if not _git(root, "rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}"):
        raise ConfigError(
            f"git knows no commit `{reference}` here, so what it covered is unknown",
            hint=f"fetch it: `git fetch origin {reference.removeprefix('origin/')}`",
        )
    archive = _git(root, "archive", "--format=tar", reference, "--", _SCENARIOS)
    parts: dict[Part, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if archive:
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(folder, filter="data")
        reader = Reader(directory=Path(folder, _SCENARIOS))
        for name in scenario_names(reader.directory):
            merged = reader.merged(name)
            for capability in merged.data.get("covers", ()) if merged else ():
                parts.setdefault((capability, merged.data["accelerator"] if merged else "cuda"), []).append(name)
    if reader.problems:
        problems = "\n".join(f"  - {problem}" for problem in reader.problems)
        raise ConfigError(f"the scenarios of {reference} cannot be read:\n{problems}")
    return {part: tuple(names) for part, names in parts.items()}


def _git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(("git", "-C", str(root), *arguments), capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""
