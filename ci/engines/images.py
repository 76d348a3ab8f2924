"""The plan's image, ready to start: found or pulled, and the one that the lock means."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import docker
import docker.errors
from docker.models.images import Image as LocalImage

from ci.engines import daemon
from ci.errors import CancelledError, ImageError
from ci.plan import Image

_SAY_EVERY_S = 10.0
_POLL_S = 0.1


def prepare(client: docker.DockerClient, image: Image, *, stop: Callable[[], bool]) -> tuple[str, str | None]:
    """Return the id to start and the digest to record: the registry's where pinned, else the image's own id.

    Raises:
        ImageError: the image is not to be had, or is not the one that is pinned.
    """
    with daemon.explained(f"looking for the image {image.reference}", image=image.reference):
        try:
            found = client.images.get(image.reference)
        except docker.errors.ImageNotFound:
            if image.digest is None:
                raise
            found = None
    if found is None:
        _pull(client, image, stop)
        with daemon.explained(f"looking for the image {image.reference}", image=image.reference):
            found = client.images.get(image.reference)
    identifier = str(found.id)
    if image.digest is None:
        return identifier, identifier
    if image.digest not in _digests(found):
        raise ImageError(
            f"the image {image.reference} is not the one that is pinned: it has {', '.join(_digests(found))}",
            hint=f"`docker image rm {image.reference}` and start again, or `inv images.pin {image.name}`",
        )
    return identifier, image.digest


def _digests(image: LocalImage) -> tuple[str, ...]:
    # An engine with containerd's store uses the manifest's digest as the id.
    repository = tuple(entry.rpartition("@")[2] for entry in image.attrs.get("RepoDigests") or ())
    return (*repository, str(image.id))


def _pull(client: docker.DockerClient, image: Image, stop: Callable[[], bool]) -> None:
    """Pull in a thread, so that a cancelled run need not wait for the registry."""
    state = _Pull()
    thread = threading.Thread(target=state.run, args=(client, image.reference), name="pull", daemon=True)
    thread.start()
    said = time.monotonic()
    print(f"pulling {image.reference}", flush=True)
    while thread.is_alive():
        if stop():
            raise CancelledError(f"cancelled while pulling {image.reference}")
        if time.monotonic() - said > _SAY_EVERY_S:
            said = time.monotonic()
            print(f"pulling {image.reference}: {state.progress()}", flush=True)
        thread.join(_POLL_S)
    if state.error is not None:
        raise daemon.explain(state.error, f"pulling {image.reference}", image=image.reference) from state.error


class _Pull:
    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self.error: Exception | None = None

    def run(self, client: docker.DockerClient, reference: str) -> None:
        """Follow the engine's answer: an error in the middle of it is a line, no exception."""
        try:
            with contextlib.closing(client.api.pull(reference, stream=True, decode=True)) as lines:
                for line in lines:
                    if "error" in line:
                        raise docker.errors.APIError(str(line["error"]))
                    detail = line.get("progressDetail") or {}
                    if line.get("status") == "Downloading" and "total" in detail:
                        self._layers[line["id"]] = (int(detail["current"]), int(detail["total"]))
        except daemon.Errors as error:
            self.error = error

    def progress(self) -> str:
        """Return how much has come of what is known to come."""
        layers = tuple(self._layers.values())
        current, total = (sum(part) / 1e9 for part in zip(*layers, strict=True)) if layers else (0.0, 0.0)
        return f"{current:.2f} of {total:.2f} GB"
