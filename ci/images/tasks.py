"""Tasks on the images."""

from __future__ import annotations

from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context

from ci.images.build import build as build_image
from ci.images.listing import print_images
from ci.invocation import suite_task

ROOT = Path(__file__).parents[2]


@suite_task
def list_(_: Context) -> None:
    """List the images: where each is pinned, whether it is here, and whether anybody verified it."""
    print_images(ROOT)


@suite_task
def build(_: Context, name: str, base: str = "", dry_run: bool = False) -> None:
    """Build an image; nothing is done when nothing changed. --base REF stands in for its base, --dry-run prints."""
    built = build_image(name, ROOT, base=base or None, dry_run=dry_run)
    if built is not None:
        print(f"{built.reference}: {'nothing has changed' if built.reused else 'built'} ({built.identifier})")


namespace = Collection("images", build)
namespace.add_task(list_, name="list")
