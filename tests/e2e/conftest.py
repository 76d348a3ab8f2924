"""What the tests of the real images share: a base that needs no registry."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator

import docker
import pytest

PACKAGES = "python3,python3-venv,ca-certificates"


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Debian with Python in place of the bases that images.yaml names, which may not be within reach."""
    folder = tmp_path_factory.mktemp("debian")
    command = ("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(folder / "root"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"debootstrap, as root, makes the base of the images: {done.stdout[-2000:]}"
    archive = folder / "base.tar"
    subprocess.run(("tar", "-C", str(folder / "root"), "-cf", str(archive), "."), check=True)
    shutil.rmtree(folder / "root")
    tag = f"bookworm-{secrets.token_hex(4)}"
    client = docker.from_env(timeout=300)
    try:
        client.api.import_image_from_file(str(archive), repository="verl-e2e-test", tag=tag)
        archive.unlink()
        yield f"verl-e2e-test:{tag}"
        client.images.remove(f"verl-e2e-test:{tag}", force=True)
    finally:
        client.close()
