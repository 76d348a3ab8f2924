"""verl as an image has it, copied out through a real Docker engine."""

from __future__ import annotations

import io
import secrets
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from ci.cache import CACHE_VARIABLE
from ci.errors import ImageError
from ci.plan import Verl
from ci.verl.source import find_source
from tests.engine import python_image
from tests.unit.preflight.fake_verl import write_fake_verl

REPOSITORY = "verl-e2e-test"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def plain(client: docker.DockerClient) -> Iterator[str]:
    """Yield an image with Python and without verl."""
    reference = f"{REPOSITORY}:source-{secrets.token_hex(4)}"
    python_image.build(client, *reference.split(":"))
    yield reference
    client.images.remove(reference, force=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def image_with_verl(client: docker.DockerClient, plain: str, tmp_path: Path, place: str) -> str:
    """Commit the small verl into an image at a place, and return the image."""
    tree = write_fake_verl(tmp_path / "tree")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(tree, arcname=place.lstrip("/"))
    container = client.containers.create(plain, entrypoint=["python3"])
    try:
        container.put_archive("/", content.getvalue())
        return str(container.commit(repository=REPOSITORY, tag=f"verl-{secrets.token_hex(4)}").tags[0])
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("where", ["checkout", "package"])
def test_verl_is_copied_out_of_an_image_once(
    client: docker.DockerClient, plain: str, tmp_path: Path, where: str
) -> None:
    place = (
        "/workspace/verl"
        if where == "checkout"
        else sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})
    )  # the image has this one's
    image = image_with_verl(client, plain, tmp_path, place)
    try:
        source = find_source(Verl(kind="image", name=image))
        assert source.version == "9.9.9"
        assert (source.root / "verl/trainer/config/ppo_trainer.yaml").is_file()
        assert source.fingerprint == f"image:{client.images.get(image).id}"
        assert client.containers.list(all=True, filters={"ancestor": image}) == []
        stamp = source.root.stat().st_mtime_ns
        assert find_source(Verl(kind="image", name=image)) == source
        assert source.root.stat().st_mtime_ns == stamp
    finally:
        client.images.remove(image, force=True)


def test_an_image_without_verl_says_so(plain: str) -> None:
    with pytest.raises(ImageError, match="holds no verl"):
        find_source(Verl(kind="image", name=plain))


def test_an_image_that_is_not_here_says_how_to_get_it() -> None:
    with pytest.raises(ImageError, match="is not on this machine"):
        find_source(Verl(kind="image", name="registry.invalid/verl:none"))
