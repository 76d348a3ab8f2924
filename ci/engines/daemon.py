"""The connection to Docker, or to podman's compatible socket, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import docker
import docker.errors
import requests.exceptions
from docker.constants import DEFAULT_UNIX_SOCKET
from docker.context import ContextAPI

from ci.errors import DeviceError, ImageError, NetworkError, SuiteError

Errors = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)
"""What the SDK raises: its own errors, and those of the connection."""


@contextlib.contextmanager
def connect(*, timeout_s: int) -> Iterator[docker.DockerClient]:
    """Open the engine that DOCKER_HOST names, else the current docker context, as docker's own client does; close it.

    Raises:
        ImageError: nobody answers there, or not to this user.
    """
    with contextlib.ExitStack() as stack:
        try:
            _knock()
            client = stack.enter_context(contextlib.closing(docker.from_env(timeout=timeout_s)))
            client.ping()
        except Errors as error:
            raise _no_connection(error) from error
        yield client


def address() -> str:
    """Return where the engine is looked for."""
    return os.environ.get("DOCKER_HOST") or ContextAPI.kwargs_from_context().get("base_url") or DEFAULT_UNIX_SOCKET


def _knock() -> None:
    """Connect once to a local engine: the SDK leaves its own socket open when nobody answers."""
    _, local, path = address().partition("unix://")
    if local:
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(5.0)
            knock.connect(path)


def is_podman(client: docker.DockerClient) -> bool:
    """Tell whether podman answers in Docker's place."""
    return any(part.get("Name") == "Podman Engine" for part in client.version().get("Components") or ())


@contextlib.contextmanager
def explained(what: str, *, image: str) -> Iterator[None]:
    """Turn an error of the SDK into one that says what to do."""
    try:
        yield
    except Errors as error:
        raise explain(error, what, image=image) from error


def explain(error: Exception, what: str, *, image: str) -> SuiteError:
    """Return the suite's error for one of the SDK's."""
    # An answer of the engine is an APIError, which is also one of requests' errors.
    if not isinstance(error, docker.errors.DockerException):
        return _no_connection(error)
    text = _text(error)
    for meaning in _MEANINGS:
        if meaning.pattern.search(text):
            return meaning.error(f"{what}: {meaning.says.format(image=image)}: {text}", hint=meaning.hint)
    return ImageError(f"{what}: {text}", hint="`docker info` and the engine's own log tell more")


@dataclass(frozen=True, kw_only=True)
class _Meaning:
    pattern: re.Pattern[str]
    error: type[SuiteError]
    says: str
    hint: str


def _meaning(error: type[SuiteError], says: str, hint: str, *texts: str) -> _Meaning:
    return _Meaning(pattern=re.compile("|".join(texts), re.IGNORECASE), error=error, says=says, hint=hint)


_MEANINGS = (
    _meaning(
        ImageError,
        "the engine's disk is full",
        "`docker system df` shows what fills it, `inv images.prune` removes what the suite left",
        "no space left on device",
        "disk quota exceeded",
    ),
    _meaning(
        DeviceError,
        "the engine has no NVIDIA runtime",
        "install nvidia-container-toolkit, run `nvidia-ctk runtime configure`, and restart the engine",
        r'could not select device driver "\S*" with capabilities: \[\[gpu',
        "unresolvable CDI devices",
        "nvidia-container-runtime.*not found",
    ),
    _meaning(
        ImageError,
        "podman has no init process to put into the container",
        "install catatonit",
        "container-init binary not found",
    ),
    _meaning(
        DeviceError,
        "a device could not be given to the container",
        "`nvidia-smi` or `npu-smi info` on the host shows whether the devices and their driver work",
        "nvidia-container-cli",
        "libnvidia-ml",
        "unknown device",
        "gathering device information",
        "/dev/davinci",
    ),
    _meaning(
        ImageError,
        "the registry refused the image {image}",
        "`docker login` for its registry, or see the name",
        "unauthorized",
        "access.*denied",
        "denied: ",
        "authentication required",
        "no basic auth credentials",
    ),
    _meaning(
        ImageError,
        "the image {image} is not here, nor where its name points to",
        "`inv images.list` shows what the suite knows; `inv images.build NAME` builds one on this machine",
        "no such image",
        "image not known",
        "manifest.*(?:unknown|not found)",
        "not found: manifest",
        "repository .* not found",
        "invalid reference format",
    ),
    _meaning(
        ImageError,
        "the registry speaks plain HTTP",
        "allow it: insecure-registries in /etc/docker/daemon.json, or `insecure = true` in podman's registries.conf",
        "server gave HTTP response to HTTPS client",
    ),
    _meaning(
        NetworkError,
        "the registry could not be reached",
        "see DNS, and the proxy that the engine itself uses",
        "no such host",
        "i/o timeout",
        "connection refused",
        "TLS handshake",
        "name resolution",
        "network is unreachable",
    ),
    _meaning(
        ImageError,
        "the image {image} cannot start the command",
        "see the plan's launcher, and that the image is of this machine's platform",
        "executable file not found",
        "exec format error",
        "no such file or directory: unknown",
    ),
    _meaning(
        ImageError,
        "a folder of the plan cannot be mounted",
        "the engine has to run on this machine, since it mounts this machine's folders",
        "bind source path does not exist",
        "invalid mount config",
        "error while creating mount source path",
    ),
)
"""In order: what is more certain comes first."""


def _no_connection(error: Exception) -> ImageError:
    place = address()
    text = _text(error)
    if isinstance(error, PermissionError) or "Permission denied" in text or "PermissionError" in text:
        return ImageError(
            f"this user may not talk to {place}",
            hint="join the group of the socket (often `docker`), or use a rootless engine through DOCKER_HOST",
        )
    if isinstance(error, requests.exceptions.Timeout):
        return ImageError(f"{place} does not answer: {text}", hint="see the engine's log; it may have to be restarted")
    return ImageError(
        f"no Docker engine answers at {place}: {text}",
        hint="start it (`systemctl start docker`), or let DOCKER_HOST name another, such as podman's socket",
    )


def _text(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip()
