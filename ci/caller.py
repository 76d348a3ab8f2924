"""The environment of whoever started the suite, without what nox put into it for itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_OWN = ("NOX_CURRENT_SESSION", "NOX_SCRIPT_MODE", "NOX_OUTER_PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")


def caller_environment(environment: Mapping[str, str] = os.environ, *, prefix: str = sys.prefix) -> dict[str, str]:
    """Return the environment a trainer inherits.

    Nox runs in an environment of its own, whose Python comes first on PATH: a scenario that starts the image's
    ``python3`` would get that one, without verl.
    """
    own_scripts = Path(prefix, "bin")
    outside = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if Path(part) != own_scripts]
    cleaned = {name: value for name, value in environment.items() if name not in _OWN}
    return cleaned | {"PATH": os.pathsep.join(outside)}


@contextmanager
def as_caller() -> Iterator[Mapping[str, str]]:
    """Let this process have the caller's environment for a while, and nox its own again afterwards."""
    before = dict(os.environ)
    cleaned = caller_environment()
    _become(cleaned)
    try:
        yield cleaned
    finally:
        _become(before)


def _become(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
