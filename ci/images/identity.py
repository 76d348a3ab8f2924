"""The file in every image of the suite that says which image it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ci.errors import ImageError

IDENTITY = Path("/etc/verl-e2e/image.json")


class Identity(BaseModel):
    """What an image says of itself; `write_identity.py` writes it at the end of a build."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    content_hash: str
    source_commit: str
    """The suite's commit; ``-dirty`` follows where its files had been changed."""
    base: str
    environment: Mapping[str, str]
    """Its variables that decide what is found: the shell of a job that runs in it may not have inherited them."""
    versions: Mapping[str, str]
    """Every Python package of the image."""


def inside_image(path: Path = IDENTITY) -> Identity | None:
    """Return the identity of the image that this machine was started from, or None elsewhere.

    Raises:
        ImageError: there is an identity, and it cannot be understood.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ImageError(f"the image's identity {path} cannot be read: {error.strerror}") from error
    return parsed(text, where=str(path))


def parsed(text: str, *, where: str) -> Identity:
    """Return the identity that a text holds.

    Raises:
        ImageError: it holds none.
    """
    try:
        return Identity.model_validate_json(text)
    except ValidationError as error:
        raise ImageError(
            f"{where} is no identity of an image: {error.errors()[0]['msg']}",
            hint="`inv images.build` makes one that is",
        ) from error
