"""A shell in an image, as the caller, in the caller's folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ci.errors import ImageError


def shell_command(reference: str, *, folder: Path, terminal: bool, path: str | None = None) -> tuple[str, ...]:
    """Return the command line that opens the shell; the folder is mounted at its own place.

    Raises:
        ImageError: there is no docker and no podman on PATH.
    """
    program = shutil.which("docker", path=path) or shutil.which("podman", path=path)
    if program is None:
        raise ImageError("there is no docker and no podman on PATH", hint="install the client of the engine")
    options: Mapping[str, str] = {
        "--user": f"{os.getuid()}:{os.getgid()}",
        "--env": "HOME=/tmp",
        "--volume": f"{folder}:{folder}",
        "--workdir": str(folder),
        "--entrypoint": "/bin/sh",
        "--label": "verl-e2e=shell",
    }
    given = (f"{key}={value}" for key, value in options.items())
    return (program, "run", "--rm", "--interactive", *(("--tty",) if terminal else ()), *given, reference)
