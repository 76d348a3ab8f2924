"""Tasks on the images."""

from __future__ import annotations

import os
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context

from ci.images import publish
from ci.images.build import build as build_image
from ci.images.listing import print_images
from ci.images.verify import verify as verify_image
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


@suite_task
def verify(_: Context, name: str) -> None:
    """Start the image that was built here, and prove from inside what images.yaml demands of it."""
    proof = verify_image(name, ROOT)
    print(f"{name} holds what images.yaml demands: {len(proof.versions)} packages, built on {proof.base}")


@suite_task
def push(_: Context, name: str, registry: str = "") -> None:
    """Push an image that passed its verification; --registry HOST/PATH, else VERL_E2E_REGISTRY, says where to."""
    repository = publish.repository_of(name, registry, os.environ)
    print(f"{repository}@{publish.push(name, ROOT, repository)}")


@suite_task
def pin(_: Context, name: str, registry: str = "") -> None:
    """Resolve the image's tag to its digest in the registry, without pulling, and write it into the lock."""
    entry = publish.pin(name, ROOT, publish.repository_of(name, registry, os.environ))
    state = "verified" if entry.verified else f"not verified: {entry.reason}"
    print(f"{name}: {entry.repository}@{entry.digest}, {state}")


@suite_task
def check(_: Context) -> None:
    """Ask the registries whether every pin still resolves, has its tag and its platforms; fails when one does not."""
    print(*publish.check(ROOT), sep="\n")


namespace = Collection("images", build, verify, push, pin, check)
namespace.add_task(list_, name="list")
