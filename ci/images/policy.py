"""What speaks against running an image: under CI only one that is pinned, verified and of today's inputs may run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ci.images.identity import Identity
from ci.plan import Doubt, Image


def doubts(image: Image, *, wanted: str) -> tuple[Doubt, ...]:
    """Return what speaks against an image of the lock; ``wanted`` is the content hash of today's inputs."""
    return tuple(_doubts(image, wanted))


def _doubts(image: Image, wanted: str) -> Iterator[Doubt]:
    build, verify, push, pin = (f"`inv images.{task} {image.name}`" for task in ("build", "verify", "push", "pin"))
    if image.digest is None:
        yield Doubt(
            what=f"{image.name} is not pinned: {image.reference} is whatever lies on this machine",
            mend=f"{build}, {verify}, {push}, {pin}",
        )
        return
    if not image.verified:
        yield Doubt(
            what=f"{image.name} is not verified: nobody proved what {image.reference} holds",
            mend=f"{build}, {verify}, {push}, {pin}",
        )
    if image.content_hash != wanted:
        yield Doubt(
            what=f"{image.name} was pinned at {image.content_hash}, and what it is built from has changed to {wanted}",
            mend=f"{build}, {verify}, {push}, {pin}; or undo the change of containers/{image.name}",
        )


def started_from(identity: Identity, images: Mapping[str, Image]) -> Image:
    """Return the image that this machine was started from, with what speaks against it."""
    locked = images.get(identity.name)
    if locked is not None and identity.content_hash == locked.content_hash:
        return locked
    found = f"this machine was started from {identity.name} with the content {identity.content_hash}"
    if locked is None:
        doubt = Doubt(
            what=f"{found}, which images.yaml does not name", mend=f"start it from one of {', '.join(images)}"
        )
    else:
        doubt = Doubt(what=f"{found}; the lock has {locked.content_hash}", mend=f"start it from {locked.reference}")
    return Image(
        name=identity.name,
        reference=f"{identity.name}:{identity.content_hash}",
        digest=None,
        verified=False,
        content_hash=identity.content_hash,
        capabilities=locked.capabilities if locked else (),
        doubts=(doubt,),
    )


def missing_capabilities(needs: Sequence[str], image: Image) -> tuple[str, ...]:
    """Return what a scenario needs and the image does not have: known before anything is pulled."""
    return tuple(need for need in needs if need not in image.capabilities)
