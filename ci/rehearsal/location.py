"""Where a rehearsal's environment lies: pure, so that a plan can name its Python before it is made."""

from __future__ import annotations

from pathlib import Path

from ci.plan import Verl


def python_of(verl: Verl, cache: Path) -> Path:
    """Return the Python of the environment that rehearses this verl."""
    return cache / "rehearsal" / (f"verl-{verl.name}" if verl.kind == "release" else "verl-checkout") / "bin" / "python"
