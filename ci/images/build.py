"""Building an image: from the same inputs never twice."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors

from ci.engines import daemon
from ci.errors import ConfigError, ImageError, SuiteError
from ci.images.builder import Builder, find_builder
from ci.images.context import content_hash, staged
from ci.images.lock import LOCAL
from ci.images.pip_settings import PipSettings, pip_settings
from ci.images.specification import specification_called
from ci.rehearsal.torch_index import cpu_torch_index

BASE_LABEL = "org.opencontainers.image.base.name"
_REQUEST_S = 60
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Build arguments that every Dockerfile has, and that are kept out of an image's history."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """An image of this machine."""

    reference: str
    identifier: str
    reused: bool
    """True when nothing had changed and nothing was built."""


def build(name: str, root: Path, *, base: str | None = None, dry_run: bool = False) -> Built | None:
    """Build an image under the tag of its content, or return the one that is there; None after a dry run.

    ``base`` stands in for the base of images.yaml; the image's label and identity say so.

    Raises:
        ConfigError: no image is called so, an input is missing, or its base has no digest.
        ImageError: no engine, no builder, or the build failed.
    """
    specification = specification_called(name, root)
    if base is None and specification.base.digest is None:
        raise ConfigError(
            f"the image {name} cannot be built: no digest of its base {specification.base.tag} is known",
            hint=f"`inv images.build {name} --base REFERENCE@DIGEST`, or put the digest into containers/images.yaml",
        )
    wanted = base or specification.base.reference
    content = content_hash(name, specification, root)
    reference = f"{LOCAL}/{name}:{content}"
    environment = dict(os.environ)
    arguments = {
        **specification.arguments,
        "BASE": wanted,
        "NAME": name,
        "CONTENT_HASH": content,
        "SOURCE_COMMIT": _commit(root),
    }
    with _engine(dry_run=dry_run) as client:
        found = None if client is None or dry_run else _found(client, reference, wanted)
        if found is not None:
            return Built(reference=reference, identifier=found, reused=True)
        builder = find_builder(podman=daemon.address() if client and daemon.is_podman(client) else None)
        settings = pip_settings(environment)
        if name == "cpu" and not settings.links and (index := cpu_torch_index(environment)):
            arguments["TORCH_INDEX"] = index
        with staged(name, specification, root, settings.links) as context, _secrets(settings) as secrets:
            argv = _command(builder, reference, arguments, secrets, environment, context)
            print(f"building {reference} with {builder}\n  {shlex.join(argv)}", flush=True)
            if dry_run or client is None:
                return None
            _run(argv, builder, environment, name)
        identifier = _found(client, reference, wanted)
    if identifier is None:
        raise ImageError(
            f"{builder} built {reference}, and the engine does not have it: they do not share a store",
            hint="let DOCKER_HOST name the engine that the builder uses, or choose a builder with `docker buildx use`",
        )
    return Built(reference=reference, identifier=identifier, reused=False)


@contextlib.contextmanager
def _engine(*, dry_run: bool) -> Iterator[docker.DockerClient | None]:
    """Open the engine; what is only to be shown can be shown without one, and is then Docker's."""
    with contextlib.ExitStack() as stack:
        client = None
        try:
            client = stack.enter_context(daemon.connect(timeout_s=_REQUEST_S))
        except SuiteError:
            if not dry_run:
                raise
        yield client


def _found(client: docker.DockerClient, reference: str, base: str) -> str | None:
    """Return the id of the image if it is here and was built on that base."""
    with daemon.explained(f"looking for the image {reference}", image=reference):
        try:
            image = client.images.get(reference)
        except docker.errors.ImageNotFound:
            return None
    return str(image.id) if image.labels.get(BASE_LABEL) == base else None


@contextlib.contextmanager
def _secrets(settings: PipSettings) -> Iterator[Mapping[str, str]]:
    with tempfile.NamedTemporaryFile("w", prefix="pip-", suffix=".conf") as file:
        file.write(settings.configuration)
        file.flush()
        sources = {"pip": file.name}
        if settings.certificates is not None:
            sources["certificates"] = str(settings.certificates)
        yield sources


def _command(
    builder: Builder,
    reference: str,
    arguments: Mapping[str, str],
    secrets: Mapping[str, str],
    environment: Mapping[str, str],
    context: Path,
) -> tuple[str, ...]:
    given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    given += [f"--build-arg={key}" for key in _PROXIES if environment.get(key)]
    given += [f"--secret=id={key},src={path}" for key, path in secrets.items()]
    progress = ("--progress=plain",) if environment.get("CI") and not builder.registry else ()
    tag = f"--tag={builder.registry}{reference}"
    return (*builder.command, *progress, tag, *given, str(context))


def _run(argv: Sequence[str], builder: Builder, environment: Mapping[str, str], name: str) -> None:
    done = subprocess.run(argv, env={**environment, **builder.environment}, check=False)
    if done.returncode:
        raise ImageError(
            f"the image {name} was not built: {builder} ended with {done.returncode}; its last lines above say why",
            hint="where the base cannot be pulled: `--base REFERENCE`; where the disk is full: `docker system df`",
        )


def _commit(root: Path) -> str:
    """Return the suite's commit, with ``-dirty`` where files differ from it."""
    done = subprocess.run(
        ("git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
