"""Which image a plan names: by digest once it is pinned, openly unpinned before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ci.images.specification import load_specifications
from ci.plan import Image


def local_tag(name: str) -> str:
    """Return the tag that the newest build on this machine has."""
    return f"verl-e2e/{name}:local"


def locked_images(root: Path) -> Mapping[str, Image]:
    """Return the image that stands for each name; the record of a run has the digest of what really started."""
    return {
        name: Image(name=name, reference=specification.upstream or local_tag(name), digest=None, verified=False)
        for name, specification in load_specifications(root).items()
    }
