"""What `containers/images.yaml` says of each image: what it is built from, and what must be true inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ci.data_files import read
from ci.errors import ConfigError

Platform = Literal["linux/amd64", "linux/arm64"]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
SPECIFICATIONS = Path("containers", "images.yaml")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Base(_Part):
    """The image that an image starts from."""

    tag: str
    digest: Digest | None
    """None where none is known: then the image can only be built with ``--base``."""
    resolved: bool
    """False until a registry was seen to have the digest."""

    @property
    def reference(self) -> str:
        """Return tag and digest in one: the digest decides, the tag tells the reader."""
        return self.tag if self.digest is None else f"{self.tag}@{self.digest}"


class Holdings(_Part):
    """What `images.verify` proves inside the image."""

    imports: tuple[str, ...] = ()
    """Modules that the image's ``python3`` can import."""
    worker_imports: tuple[str, ...] = ()
    """Modules that a Ray worker, and not only the driver, can import."""
    collective: Literal["nccl", "hccl", "gloo"] | None = None
    """What processes of the image reduce with: over every free device of a machine that has some, two on a CPU."""
    programs: tuple[str, ...] = ()
    """Commands that are on PATH, such as a compiler."""
    versions: Mapping[str, str] = {}
    """Packages that must fit together, each at its one version; a local part (``+cpu``) does not count."""


class Specification(_Part):
    """One image."""

    summary: str
    platforms: tuple[Platform, ...] = Field(min_length=1)
    base: Base
    arguments: Mapping[str, str] = {}
    """Build arguments beside BASE."""
    inputs: tuple[Path, ...] = ()
    """Files of the repository that the Dockerfile finds beside itself, besides those of its own folder."""
    capabilities: tuple[str, ...]
    """What a scenario's ``needs`` can ask for."""
    holds: Holdings = Holdings()
    unverified_because: str | None = None
    """Why nobody could verify the image yet; it is shown wherever the image is."""


class _Document(_Part):
    images: Mapping[str, Specification]


def specifications(root: Path) -> Mapping[str, Specification]:
    """Return what the repository at ``root`` says of its images, by name.

    Raises:
        ConfigError: with every fault of the file.
    """
    return read(root / SPECIFICATIONS, TypeAdapter(_Document), shown=str(SPECIFICATIONS)).images


def specification_called(name: str, root: Path) -> Specification:
    """Return the specification of one image.

    Raises:
        ConfigError: no image is called so.
    """
    known = specifications(root)
    if name not in known:
        raise ConfigError(f"no image is called `{name}`; known: {', '.join(known)}")
    return known[name]
