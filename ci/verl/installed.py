"""The package verl as this machine's own Python has it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ci.errors import ConfigError
from ci.images.identity import inside_image

PACKAGE = "import importlib.util as u; print(list(u.find_spec('verl').submodule_search_locations)[0])"
"""A program that prints where a Python has the package; warnings may stand before."""


def installed_package(python: str) -> Path:
    """Return the folder that holds the package which this machine's Python, or the image's where it is one, imports.

    Raises:
        ConfigError: it imports none.
    """
    identity = inside_image()
    environment = os.environ | (dict(identity.environment) if identity else {})
    try:
        done = subprocess.run(
            (python, "-c", PACKAGE), env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return Path(done.stdout.strip().splitlines()[-1]).parent
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        raise ConfigError(
            f"there is no verl to test: none is named, and {python} of this machine imports none",
            hint="--verl PATH gives a checkout; --engine docker runs what the scenario's image holds",
        ) from error
