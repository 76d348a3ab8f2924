"""Build an image: a staged context that holds only its inputs, a tag that stands for them, BuildKit."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.engines import daemon
from ci.errors import ConfigError, ImageError
from ci.images.lock import local_tag
from ci.images.specification import Specification, load_specifications
from ci.rehearsal.torch_index import cpu_torch_index
from ci.scenarios.documents import nearest


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a build is called with."""

    name: str
    tag: str
    """Stands for the content: the same inputs give the same tag."""
    arguments: Mapping[str, str]
    inputs: tuple[Path, ...]


def plan_build(name: str, *, root: Path, base: str | None) -> Build:
    """Return what building an image takes; ``base`` replaces the base of its Dockerfile.

    Raises:
        ConfigError: no such image, or one that is not built from this repository.
    """
    specifications = load_specifications(root)
    if name not in specifications:
        raise ConfigError(f"no image is called `{name}`{nearest(name, tuple(specifications))}")
    specification = specifications[name]
    if specification.folder is None:
        raise ConfigError(f"the image {name} is not built from this repository: it is {specification.upstream}")
    inputs = _inputs(specification, root)
    arguments = {"BASE": base} if base else {}
    content_hash = _content_hash(inputs, arguments)
    return Build(
        name=name,
        tag=f"verl-e2e/{name}:{content_hash}",
        arguments=arguments | {"CONTENT_HASH": content_hash},
        inputs=inputs,
    )


def build(planned: Build, *, environment: Mapping[str, str]) -> bool:
    """Build the image unless it is there; return whether it was built. Its newest build has the local tag too.

    Raises:
        ImageError: no engine answers, no client here knows BuildKit, or the build failed.
    """
    with daemon.explained(f"looking for {planned.tag}", image=planned.tag):
        client = daemon.connect(timeout_s=30)
        try:
            if client.images.list(name=planned.tag):
                client.images.get(planned.tag).tag(local_tag(planned.name))
                return False
        finally:
            client.close()
    program = _buildkit_client(environment)
    with _context(planned, environment) as (context, secrets):
        index = cpu_torch_index(environment) or ""
        arguments = {"TORCH_INDEX": index, **planned.arguments}
        argv = [program, "build", "--progress=plain", f"--tag={planned.tag}", f"--tag={local_tag(planned.name)}"]
        argv += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        argv += [f"--secret=id={identifier},src={path}" for identifier, path in secrets.items()]
        done = subprocess.run((*argv, str(context)), env={**environment, "DOCKER_BUILDKIT": "1"}, check=False)
    if done.returncode:
        raise ImageError(
            f"building {planned.tag} failed: {program} ended with {done.returncode}", hint="see its log above"
        )
    return True


def _inputs(specification: Specification, root: Path) -> tuple[Path, ...]:
    folder = root / str(specification.folder)
    own = sorted(path for path in folder.rglob("*") if path.is_file())
    return (*own, *(root / path for path in specification.inputs))


def _content_hash(inputs: tuple[Path, ...], arguments: Mapping[str, str]) -> str:
    state = hashlib.sha256()
    for path in inputs:
        content = path.read_bytes()
        state.update(f"{path.name} {len(content)}\n".encode() + content)
    for name, value in sorted(arguments.items()):
        state.update(f"{name}={value}\n".encode())
    return state.hexdigest()[:12]


@contextmanager
def _context(planned: Build, environment: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Stage the build's inputs, this machine's wheels, and what pip needs to reach its index from inside."""
    with tempfile.TemporaryDirectory(prefix="verl-e2e-build.") as name:
        context, secrets = Path(name, "context"), Path(name)
        (context / "wheels").mkdir(parents=True)
        for path in planned.inputs:
            shutil.copy(path, context / path.name)
        for link in environment.get("PIP_FIND_LINKS", "").split():
            for wheel in Path(link).glob("*.whl"):
                _link(wheel, context / "wheels" / wheel.name)
        found = {}
        certificates = environment.get("PIP_CERT") or environment.get("SSL_CERT_FILE")
        if certificates and Path(certificates).is_file():
            found["certificates"] = Path(certificates)
        options = {
            option: value
            for option in ("index-url", "extra-index-url", "trusted-host", "proxy")
            if (value := environment.get(f"PIP_{option.replace('-', '_').upper()}"))
        }
        if options:
            found["pip"] = secrets / "pip.conf"
            lines = "".join(f"{option} = {value}\n" for option, value in options.items())
            found["pip"].write_text(f"[global]\n{lines}", encoding="utf-8")
        yield context, found


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def _buildkit_client(environment: Mapping[str, str]) -> str:
    """Return a docker client on PATH that can build with BuildKit: newer ones need the plug-in buildx for that."""
    seen = []
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        program = Path(folder, "docker")
        if not os.access(program, os.X_OK):
            continue
        seen.append(str(program))
        version = subprocess.run((program, "--version"), capture_output=True, text=True, check=False).stdout
        major = version.partition("version ")[2].partition(".")[0]
        buildx = subprocess.run((program, "buildx", "version"), capture_output=True, check=False)
        if buildx.returncode == 0 or (major.isdigit() and int(major) < 23):  # noqa: PLR2004  # 23 moved it to buildx
            return str(program)
    what = f"{' and '.join(seen)} lack buildx" if seen else "there is no docker client on PATH"
    raise ImageError(
        f"no docker client here can build with BuildKit: {what}", hint="install docker-buildx, or docker.io"
    )
