"""The smallest image in which a fake trainer runs: this machine's own Python with the libraries it is linked to.

Nothing is pulled and nothing is built: a tar archive that the engine imports in a second or two.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "__pycache__"}
_IDENTIFIER = re.compile(r"sha256:[0-9a-f]{64}")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def build(client: docker.DockerClient, repository: str, tag: str) -> str:
    """Import the image, and return its id."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _fill(tar)
        archive.flush()
        answer = client.api.import_image_from_file(archive.name)
    identifier = _IDENTIFIER.findall(str(answer))[-1]
    # Not named in the import: podman takes no tag there.
    client.images.get(identifier).tag(repository, tag=tag)
    return str(identifier)


def _fill(tar: tarfile.TarFile) -> None:
    interpreter = Path(os.path.realpath(sys.executable))
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    extensions = [*standard.glob("lib-dynload/*.so")]
    for path in sorted({str(interpreter), *_libraries([interpreter, *extensions])}):
        tar.add(os.path.realpath(path), arcname=path)
    tar.add(standard, filter=_kept)
    for directory, mode in (("tmp", 0o1777), ("usr/bin", 0o755), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755)):
        entry = tarfile.TarInfo(directory)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    launcher = tarfile.TarInfo("usr/bin/python3")
    launcher.type, launcher.linkname = tarfile.SYMTYPE, str(interpreter)
    tar.addfile(launcher)
    note = b"made for a test\n"
    entry = tarfile.TarInfo("etc/identity")
    entry.size = len(note)
    tar.addfile(entry, io.BytesIO(note))


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if set(Path(entry.name).parts) & _LEFT_OUT else entry


def _libraries(paths: list[Path]) -> Iterator[str]:
    # `ldd` asks the dynamic loader, which names libraries by the paths it will look for in the image, too.
    output = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, check=False).stdout
    yield from _LIBRARY.findall(output)
