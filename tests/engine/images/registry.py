"""A registry of its own for the tests: Debian's docker-registry, which has to be installed."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

PORTS = range(15500, 15520)
"""Where registries of the tests listen: podman has to be told beforehand where one speaks plain HTTP."""
USER, PASSWORD = "tester", "secret"
_ENTRY = "tester:$2b$04$8vRtZsEEf3/8IiPJUfsN4.C7SeQN3fHH7nnqPpUZ01yILyicdyYXK"
"""What `htpasswd -Bn` prints for the two."""


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A registry that listens on this machine."""

    host: str

    def delete(self, repository: str, digest: str) -> None:
        """Lose a manifest, with all tags that name it."""
        answer = requests.delete(f"http://{self.host}/v2/{repository}/manifests/{digest}", timeout=10)
        assert answer.status_code == requests.codes.accepted


@contextlib.contextmanager
def served(folder: Path, *, password: bool = False) -> Iterator[Registry]:
    """Serve an empty registry, with one user's password where wanted."""
    program = shutil.which("docker-registry")
    assert program is not None, "install Debian's docker-registry: the tests push to a real one"
    host = f"127.0.0.1:{next(port for port in PORTS if _is_free(port))}"
    configuration = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host},
    }
    folder.mkdir(parents=True, exist_ok=True)
    if password:
        (folder / "users").write_text(f"{_ENTRY}\n")
        configuration["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "users")}}
    (folder / "config.yml").write_text(yaml.safe_dump(configuration))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen((program, "serve", str(folder / "config.yml")), stdout=log, stderr=log)
    try:
        _await(host)
        yield Registry(host=host)
    finally:
        process.terminate()
        process.wait(10)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
        return False


def _await(host: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"http://{host}/v2/", timeout=5).status_code in {200, 401}:
                return
        assert time.monotonic() < deadline, f"no registry answers at {host}"
        time.sleep(0.05)
