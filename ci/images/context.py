"""What an image is built from: its inputs, the hash that stands for them, and the folder Docker is given."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from ci.cache import digest
from ci.errors import ConfigError
from ci.images.specification import Specification

IDENTITY_WRITER = Path("ci", "images", "write_identity.py")
WHEELS = "wheels"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def content_hash(name: str, specification: Specification, root: Path) -> str:
    """Return the hash of all that an image is made of: files, arguments and base, nothing of the building machine.

    Raises:
        ConfigError: an input is missing.
    """
    parts = [name, specification.base.reference, *map(str, sorted(specification.arguments.items()))]
    for target, source in _inputs(name, specification, root):
        try:
            parts += [target, hashlib.sha256(source.read_bytes()).hexdigest()]
        except OSError as error:
            raise ConfigError(
                f"the image {name} lacks an input, {source.relative_to(root)}: {error.strerror}"
            ) from error
    return digest(parts)[:16]


@contextlib.contextmanager
def staged(name: str, specification: Specification, root: Path, links: Iterable[Path]) -> Iterator[Path]:
    """Return a folder with the image's inputs, and in ``wheels`` those of the links that its requirements pin."""
    with tempfile.TemporaryDirectory(prefix=f"verl-e2e-{name}-") as directory:
        folder = Path(directory)
        text = ""
        for target, source in _inputs(name, specification, root):
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / target)
            if source.suffix == ".txt":
                text += source.read_text(encoding="utf-8")
        (folder / WHEELS).mkdir()
        pins = {(str(canonicalize_name(package)), str(version)) for package, version in _PIN.findall(text)}
        for wheel in (wheel for link in links for wheel in sorted(link.glob("*.whl"))):
            if _is_pinned(wheel, pins):
                _place(wheel, folder / WHEELS / wheel.name)
        yield folder


def _inputs(name: str, specification: Specification, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield each file's place in the context, and where it lies."""
    own = root / "containers" / name
    yield "Dockerfile", own / "Dockerfile"
    for path in sorted(own.rglob("*")):
        if path.is_file() and path.name != "Dockerfile":
            yield str(path.relative_to(own)), path
    for path in (IDENTITY_WRITER, *specification.inputs):
        yield path.name, root / path


def _is_pinned(wheel: Path, pins: set[tuple[str, str]]) -> bool:
    try:
        package, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        return False
    return (package, version.public) in pins


def _place(source: Path, target: Path) -> None:
    try:
        os.link(source, target)  # a wheel can be a gigabyte
    except OSError:
        shutil.copy2(source, target)
