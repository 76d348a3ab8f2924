"""A podman of the tests' own: its Docker-compatible socket, with storage that goes when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.engine.images.registry import PORTS


@contextlib.contextmanager
def service() -> Iterator[str]:
    """Start the service, yield what DOCKER_HOST has to be, and leave nothing of it."""
    folder = Path(tempfile.mkdtemp(prefix="verl-e2e-podman.", dir="/tmp"))  # a socket's path must be short
    command = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    environment = os.environ | {
        "CONTAINERS_CONF": str(_configuration(folder)),
        "CONTAINERS_REGISTRIES_CONF": str(_registries(folder)),
        "TMPDIR": str(folder),
    }
    address = folder / "podman.sock"
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                (*command, "system", "service", "--time", "0", f"unix://{address}"),
                env=environment,
                stdout=log,
                stderr=log,
            )
        try:
            _wait(address, process, folder / "log")
            yield f"unix://{address}"
        finally:
            process.terminate()
            process.wait(30)
            subprocess.run((*command, "rm", "--all", "--force"), env=environment, check=False, capture_output=True)
    finally:
        for mount in (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()):
            if mount.startswith(str(folder)):
                subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _configuration(folder: Path) -> Path:
    """Let containers have this machine's limits: podman asks for a million files, which a machine may not give."""
    limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    # podman lowers its own limit of processes to this.
    values = {name: min(resource.getrlimit(number)[1], 32768) for name, number in limits.items()}
    path = folder / "containers.conf"
    path.write_text(
        f"[containers]\ndefault_ulimits = {json.dumps([f'{name}={value}:{value}' for name, value in values.items()])}\n"
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    return path


def _registries(folder: Path) -> Path:
    """Allow the tests' own registries to speak plain HTTP, as Docker does on its own for this machine."""
    path = folder / "registries.conf"
    path.write_text("".join(f'[[registry]]\nlocation = "127.0.0.1:{port}"\ninsecure = true\n' for port in PORTS))
    return path


def _wait(address: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.connect(str(address))
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
