"""The program that builds into the engine's store: the first docker on PATH that can do a BuildKit build, or podman."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci.errors import ImageError

_BUILT_IN_UNTIL = 23
"""From docker 23 on the client leaves BuildKit to its plug-in buildx: https://docs.docker.com/engine/release-notes/23.0/"""


@dataclass(frozen=True, kw_only=True)
class Builder:
    """A program with the subcommand ``build``, which knows RUN mounts and secrets."""

    program: str
    version: str
    command: tuple[str, ...]
    """What builds, up to the options of every build."""
    registry: str = ""
    """What has to stand before a tag, so that the engine finds it by the name without."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it needs for it."""

    def __str__(self) -> str:
        return f"{self.program} ({self.version})"


def find_builder(*, podman: str | None = None, path: str | None = None) -> Builder:
    """Return the builder of this machine; ``podman`` is the engine's address where podman answers.

    Raises:
        ImageError: there is none; the message says what is wrong with each that was found.
    """
    if podman is not None:
        return _podman(podman, path)
    refused: list[str] = []
    for program in _on_path("docker", path):
        found = _docker(program)
        if isinstance(found, Builder):
            return found
        refused.append(f"{program}: {found}")
    raise ImageError(
        f"nothing here can build an image with BuildKit: {'; '.join(refused) or 'no docker on PATH'}",
        hint="install docker's plug-in buildx (docker-buildx-plugin), or let DOCKER_HOST name podman's socket",
    )


def _podman(address: str, path: str | None) -> Builder:
    for program in _on_path("podman", path):
        return Builder(
            program=program,
            version=f"podman {_output(program, 'version', '--format={{.Client.Version}}', code_matters=False)}",
            # Docker's format keeps what OCI's has no field for, such as SHELL.
            command=(program, "--url", address, "build", "--format=docker"),
            registry="docker.io/",  # where podman's Docker-compatible socket looks for a name without one
        )
    raise ImageError(f"{address} is podman's, and there is no podman on PATH to build with", hint="install podman")


def _docker(program: str) -> Builder | str:
    """Return the builder, or what is wrong with it."""
    kit = {"DOCKER_BUILDKIT": "1"}
    if (buildx := _output(program, "buildx", "version")) is not None:
        return Builder(
            program=program, command=(program, "build"), version=" ".join(buildx.split()[:2]), environment=kit
        )
    # Of the client alone: without a server the command ends with an error, and still says it.
    version = _output(program, "version", "--format={{.Client.Version}}", code_matters=False) or ""
    major = version.split(".")[0]
    if not major.isdecimal():
        return "it does not tell its version"
    if int(major) < _BUILT_IN_UNTIL:
        return Builder(
            program=program, command=(program, "build"), version=f"docker {version}, BuildKit built in", environment=kit
        )
    return f"docker {version} without the plug-in buildx"


def _on_path(name: str, path: str | None) -> Iterator[str]:
    seen: set[Path] = set()
    for folder in (os.environ.get("PATH", "") if path is None else path).split(os.pathsep):
        program = Path(folder, name)
        if folder and os.access(program, os.X_OK) and program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield str(program)


def _output(*argv: str, code_matters: bool = True) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if code_matters and done.returncode else done.stdout.strip()
