"""Whether an image may be run: under CI only one that is pinned and verified."""

from __future__ import annotations

from collections.abc import Sequence

from ci.images.specification import Specification
from ci.plan import Image


def problems(image: Image, *, is_ci: bool) -> tuple[str, ...]:
    """Return what speaks against an image, each with the command that mends it.

    Under CI they refuse the run: what is there by a tag, or was never proved, can be another thing tomorrow.
    Elsewhere they are warnings, and an image that was just built here is expected to be neither.
    """
    found = []
    if image.digest is None:
        found.append(
            f"the image {image.name} is not pinned: {image.reference} is whatever lies on this machine; "
            f"`inv images.push {image.name}`, then `inv images.pin {image.name}`"
        )
    if not image.verified:
        mend = f"`inv images.build {image.name}`, `inv images.verify {image.name}`"
        if image.digest is not None:
            mend += f", `inv images.push {image.name}`, `inv images.pin {image.name}`"
        found.append(f"the image {image.name} is not verified: nobody proved what it holds; {mend}")
    if is_ci:
        return tuple(f"refused under CI: {problem}" for problem in found)
    return tuple(found)


def missing_capabilities(needs: Sequence[str], specification: Specification) -> tuple[str, ...]:
    """Return what a scenario needs and the image does not state: known before anything is pulled."""
    return tuple(need for need in needs if need not in specification.capabilities)
