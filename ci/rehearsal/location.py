"""Where a rehearsal's environment and assets lie: pure, so that a plan can name them before they are made."""

from __future__ import annotations

from pathlib import Path

from ci.cache import digest
from ci.plan import Verl

PLUGINS = Path(__file__).parent.parent / "plugins"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_MAKER = PLUGINS / "verl_rehearsal" / "assets.py"


def python_of(verl: Verl, cache: Path) -> Path:
    """Return the Python of the environment that rehearses this verl."""
    return cache / "rehearsal" / (f"verl-{verl.name}" if verl.kind == "release" else "verl-checkout") / "bin" / "python"


def assets_of(cache: Path) -> Path:
    """Return the folder of model and data; its name stands for what makes them, so that a change makes them anew."""
    made_by = digest(path.read_text(encoding="utf-8") for path in (_MAKER, REQUIREMENTS))
    return cache / "assets" / made_by[:12]
