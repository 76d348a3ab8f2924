"""`containers/images.lock`: which manifest each image's name stands for. Commands write it, nobody edits it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from ci import data_files
from ci.cache import write_whole
from ci.errors import ConfigError
from ci.images.context import content_hash
from ci.images.policy import doubts
from ci.images.specification import Digest, Specification, specifications
from ci.plan import Image

LOCK = Path("containers", "images.lock")
LOCAL = "verl-e2e"
"""Where images lie that were built here and never pushed: ``verl-e2e/NAME:HASH``."""
_HEAD = "# Written by `inv images.pin NAME`; not to be edited. What was not verified says so, and why.\n"


class Entry(BaseModel):
    """What is known of one image."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repository: str | None = None
    """Registry and path; None: it is not in a registry."""
    digest: Digest | None = None
    tag: str | None = None
    """The immutable tag that keeps the registry from dropping the digest."""
    content_hash: str | None = None
    base: str | None = None
    """What it was built on, by digest."""
    platforms: tuple[str, ...] = ()
    pinned_at: datetime | None = None
    verified: bool = False
    reason: str | None = None
    """Why it is not verified, or what the proof does not cover."""
    versions: Mapping[str, str] = {}
    """The packages found inside."""

    @property
    def reference(self) -> str | None:
        """Return what an engine is to be asked for; None where nothing is pinned."""
        return None if self.repository is None or self.digest is None else f"{self.repository}@{self.digest}"


def read(root: Path) -> Mapping[str, Entry]:
    """Return the entries by the images' names; none where there is no lock.

    Raises:
        ConfigError: the file is not one that `inv images.pin` wrote.
    """
    path = root / LOCK
    if not path.exists():
        return {}
    try:
        return data_files.read(path, TypeAdapter(Mapping[str, Entry]), shown=str(LOCK))
    except ConfigError as error:
        raise ConfigError(error.message, hint="restore it from git, then `inv images.pin NAME` again") from error


def write(root: Path, name: str, entry: Entry) -> None:
    """Put one entry into the lock."""
    entries = {**read(root), name: entry}
    document = {key: entries[key].model_dump(mode="json", exclude_defaults=True) for key in sorted(entries)}
    for key, value in document.items():
        value["verified"] = entries[key].verified  # never to be guessed from its absence
    write_whole(root / LOCK, _HEAD + yaml.safe_dump(document, sort_keys=False, width=120))


def local_reference(name: str, specification: Specification, root: Path) -> str:
    """Return the tag of an image as it is built here: its content decides it."""
    return f"{LOCAL}/{name}:{content_hash(name, specification, root)}"


def local_tag(name: str, root: Path) -> str:
    """Return the tag of an image as today's inputs make it."""
    return local_reference(name, specifications(root)[name], root)


def content_of(reference: str) -> str:
    """Return the content hash that a local reference ends with."""
    return reference.rpartition(":")[2]


def locked_images(root: Path) -> Mapping[str, Image]:
    """Return the image that each name stands for: the pinned one, else what `inv images.build` makes here.

    Raises:
        ConfigError: images.yaml or the lock cannot be read, or an input of an image is missing.
    """
    entries = read(root)
    return {
        name: _image(name, entries.get(name, Entry()), specification, content_hash(name, specification, root))
        for name, specification in specifications(root).items()
    }


def _image(name: str, entry: Entry, specification: Specification, wanted: str) -> Image:
    pinned = entry.reference is not None
    image = Image(
        name=name,
        reference=entry.reference or f"{LOCAL}/{name}:{wanted}",
        digest=entry.digest if pinned else None,
        verified=pinned and entry.verified,
        content_hash=entry.content_hash if pinned else wanted,
        capabilities=specification.capabilities,
        doubts=(),
    )
    return image.model_copy(update={"doubts": doubts(image, wanted=wanted)})
