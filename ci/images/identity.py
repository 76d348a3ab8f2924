"""Whether this machine was started from one of the images: each carries a file that says which."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ci.errors import ImageError

IDENTITY = Path("/etc/verl-e2e/image.json")


class Identity(BaseModel):
    """What an image says of itself."""

    model_config = ConfigDict(frozen=True)

    name: str
    content_hash: str


def inside_image(path: Path = IDENTITY) -> Identity | None:
    """Return the identity of the image this machine was started from; None anywhere else.

    Raises:
        ImageError: the file is there, and is not what the suite's builds write.
    """
    try:
        text = path.read_bytes()
    except OSError:
        return None
    try:
        return Identity.model_validate_json(text)
    except ValueError as error:
        raise ImageError(
            f"{path} does not say which image this is: {error}", hint="rebuild the image: inv images.build"
        ) from error
