"""What differs between two images: their packages and the size of their layers."""

from __future__ import annotations

from dataclasses import dataclass

import docker
import docker.errors
from docker.models.images import Image as LocalImage
from rich.console import Console
from rich.table import Table

from ci.engines import daemon
from ci.errors import ImageError
from ci.images.verify import identity_of

_REQUEST_S = 120
_MEGABYTE = 1e6


@dataclass(frozen=True, kw_only=True)
class Change:
    """One package that is not the same in both; None where it is absent."""

    package: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of an image."""

    size: int
    """In bytes."""
    made_by: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two images side by side."""

    packages: tuple[Change, ...]
    layers: tuple[tuple[Layer, ...], tuple[Layer, ...]]
    """The first image's and the second's, lowest first; those without files are left out."""


def difference(before: str, after: str) -> Difference:
    """Compare two images of this engine, each named by a reference.

    Raises:
        ImageError: one is not here, or has no identity.
    """
    with daemon.connect(timeout_s=_REQUEST_S) as client:
        images = tuple(_image(client, reference) for reference in (before, after))
        old, new = (
            identity_of(client, image, reference) for image, reference in zip(images, (before, after), strict=True)
        )
        first, second = (_layers(image) for image in images)
    names = sorted({*old.versions, *new.versions}, key=str.lower)
    changes = (Change(package=name, before=old.versions.get(name), after=new.versions.get(name)) for name in names)
    return Difference(
        packages=tuple(change for change in changes if change.before != change.after), layers=(first, second)
    )


def print_difference(found: Difference, console: Console) -> None:
    """Print packages that changed, then both images layer by layer."""
    table = Table("package", "before", "after", box=None, pad_edge=False)
    for change in found.packages:
        table.add_row(change.package, change.before or "absent", change.after or "absent")
    console.print(table if found.packages else "the same packages in both")
    for title, layers in zip(("before", "after"), found.layers, strict=True):
        total = sum(layer.size for layer in layers) / _MEGABYTE
        console.print(f"\n{title}: {total:.0f} MB in {len(layers)} layers")
        for layer in layers:
            console.print(f"  {layer.size / _MEGABYTE:8.1f} MB  {layer.made_by}", highlight=False, markup=False)


def _image(client: docker.DockerClient, reference: str) -> LocalImage:
    with daemon.explained(f"looking for the image {reference}", image=reference):
        try:
            return client.images.get(reference)
        except docker.errors.ImageNotFound as error:
            raise ImageError(
                f"the image {reference} is not on this machine",
                hint=f"`docker pull {reference}`, or `inv images.build`",
            ) from error


def _layers(image: LocalImage) -> tuple[Layer, ...]:
    layers = (
        Layer(size=int(entry["Size"]), made_by=" ".join(str(entry["CreatedBy"]).split())[:100])
        for entry in reversed(image.history())
    )
    return tuple(layer for layer in layers if layer.size)
