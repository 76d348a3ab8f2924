"""Tasks on the container images."""

from __future__ import annotations

import os
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from rich.console import Console
from rich.table import Table

from ci.images.build import build as build_image
from ci.images.build import plan_build
from ci.images.lock import locked_images
from ci.images.specification import load_specifications
from ci.invocation import suite_task

ROOT = Path(__file__).parents[2]


@suite_task
def show(_: Context) -> None:
    """Show every image, what it offers, and whether it is pinned and verified."""
    table = Table("image", "reference", "digest", "verified", "provides", show_edge=False)
    specifications = load_specifications(ROOT)
    for name, image in locked_images(ROOT).items():
        provides = ", ".join(specifications[name].provides)
        table.add_row(name, image.reference, image.digest or "not pinned", str(image.verified).lower(), provides)
    Console().print(table)


@suite_task
def build(_: Context, name: str, base: str = "") -> None:
    """Build an image that this repository makes; unchanged inputs build nothing. --base replaces its base image."""
    planned = plan_build(name, root=ROOT, base=base or None)
    built = build_image(planned, environment=os.environ)
    print(f"{planned.tag} {'is built' if built else 'is there already: nothing changed'}")


namespace = Collection("images")
namespace.add_task(show, name="list")
namespace.add_task(build)
