"""The package verl as a container image has it, copied out once per image."""

from __future__ import annotations

import posixpath
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import docker
import docker.errors
from docker.models.containers import Container

from ci.cache import cache_directory, new_directory
from ci.engines import daemon
from ci.errors import ImageError
from ci.verl.installed import PACKAGE

# Where images of verl keep a checkout that only `uv run` in its folder finds.
_CHECKOUTS = ("/workspace/verl", "/root/verl", "/opt/verl", "/verl", "/vllm-workspace/verl")


def package_from_image(image: str) -> tuple[Path, str]:
    """Return a folder that contains the image's package ``verl``, and the image's id.

    Raises:
        ImageError: There is no Docker engine, the image is not here, or it holds no verl.
    """
    with daemon.connect(timeout_s=60) as client, daemon.explained(f"reading verl out of {image}", image=image):
        try:
            identifier = str(client.images.get(image).id)
        except docker.errors.ImageNotFound as error:
            raise ImageError(f"the image {image} is not on this machine", hint=f"docker pull {image}") from error
        root = cache_directory("images") / identifier.replace(":", "-")
        if not (root / "verl").is_dir():
            _copy(client, identifier, name=image, root=root)
        return root, identifier


def _copy(client: docker.DockerClient, identifier: str, *, name: str, root: Path) -> None:
    container = client.containers.create(
        identifier, entrypoint=["python3", "-c", PACKAGE], network_disabled=True, labels={"verl-e2e": "preflight"}
    )
    try:
        for location in (*_imported(container), *(f"{checkout}/verl" for checkout in _CHECKOUTS)):
            try:
                chunks, _ = container.get_archive(location)
            except docker.errors.NotFound:
                continue
            with tempfile.TemporaryFile() as archive, new_directory(root) as directory:
                for chunk in chunks:
                    archive.write(chunk)
                archive.seek(0)
                _unpack(archive, directory, folder=posixpath.basename(location))
            return
        raise ImageError(
            f"the image {name} holds no verl: its python3 finds no package, and there is no checkout at "
            f"{', '.join(_CHECKOUTS)}",
            hint="give one: --verl PATH_OR_VERSION",
        )
    finally:
        container.remove(force=True)


def _imported(container: Container) -> tuple[str, ...]:
    """Return where the image's Python has verl; nothing where it has none, or there is no Python, or not for here."""
    try:
        container.start()
        code = container.wait(timeout=60)["StatusCode"]
    except docker.errors.APIError:
        return ()
    lines = container.logs(stdout=True, stderr=False).decode("utf-8", "replace").split("\n")
    found = [line.strip() for line in lines if line.startswith("/")]
    return tuple(found[-1:]) if code == 0 else ()


def _unpack(archive: IO[bytes], directory: Path, *, folder: str) -> None:
    """Unpack sources and configuration; the ``data`` filter refuses paths that leave the folder."""
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            if member.isfile() and member.name.startswith(f"{folder}/"):
                tar.extract(member, directory, filter="data")
