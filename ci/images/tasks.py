"""Tasks on the images."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from rich.console import Console
from rich.table import Table

from ci.images import lock, publish
from ci.images.build import build as build_image
from ci.images.difference import difference, print_difference
from ci.images.leftovers import leftovers
from ci.images.listing import print_images
from ci.images.outdated import outdated as outdated_parts
from ci.images.shell import shell_command
from ci.images.specification import specification_called
from ci.images.verify import verify as verify_image
from ci.invocation import suite_task

ROOT = Path(__file__).parents[2]


@suite_task
def list_(_: Context) -> None:
    """List the images: pinned, verified, here.

    What nobody verified says why.
    """
    print_images(ROOT)


@suite_task
def build(_: Context, name: str, base: str = "", dry_run: bool = False) -> None:
    """Build an image, unless nothing has changed.

    --base REF stands in for the base of images.yaml, and the image says so; --dry-run prints the command.
    """
    built = build_image(name, ROOT, base=base or None, dry_run=dry_run)
    if built is not None:
        print(f"{built.reference}: {'nothing has changed' if built.reused else 'built'} ({built.identifier})")


@suite_task
def verify(_: Context, name: str) -> None:
    """Prove from inside an image that it holds what it must.

    What must hold is in images.yaml; the image is the one that was built here from today's inputs.
    """
    proof = verify_image(name, ROOT)
    collective = f"a collective of {proof.ranks}" if proof.ranks else "no collective: this machine lacks the devices"
    print(f"{name} holds what images.yaml demands: {len(proof.versions)} packages, {collective}; built on {proof.base}")


@suite_task
def push(_: Context, name: str, registry: str = "") -> None:
    """Push an image that passed its verification.

    --registry HOST/PATH, else VERL_E2E_REGISTRY, says where to; a tag that is there is never moved.
    """
    repository = publish.repository_of(name, registry, os.environ)
    print(f"{repository}@{publish.push(name, ROOT, repository)}")


@suite_task
def pin(_: Context, name: str, registry: str = "") -> None:
    """Write an image's digest in the registry into the lock.

    Nothing is pulled. --registry HOST/PATH, else VERL_E2E_REGISTRY, says which registry.
    """
    entry = publish.pin(name, ROOT, publish.repository_of(name, registry, os.environ))
    state = "verified" if entry.verified else f"not verified: {entry.reason}"
    print(f"{name}: {entry.repository}@{entry.digest}, {state}")


@suite_task
def check(_: Context) -> None:
    """Fail when a pin has died, or its tag was moved.

    Asks the registries for every pin of the lock: digest, tag and platforms.
    """
    print(*publish.check(ROOT), sep="\n")


@suite_task
def outdated(_: Context) -> None:
    """Show newer bases and newer releases of packages.

    Of packages those that images.yaml demands in one version; nothing is changed.
    """
    table = Table("image", "what", "has", "newest", box=None, pad_edge=False)
    unknown = []
    for newer in outdated_parts(ROOT):
        if newer.state == "newer":
            table.add_row(newer.image, newer.what, newer.has, newer.newest)
        else:
            unknown.append(f"not known: {newer.image}, {newer.what}: {newer.newest}")
    Console().print(table if table.row_count else "nothing is known to be newer")
    print(*unknown, sep="\n")


@suite_task
def diff(_: Context, before: str, after: str) -> None:
    """Compare two images: packages, and size by layer.

    Each is a name of images.yaml or a reference of this engine.
    """
    known = lock.locked_images(ROOT)
    first, second = (known[name].reference if name in known else name for name in (before, after))
    print_difference(difference(first, second), Console())


@suite_task
def shell(_: Context, name: str, dry_run: bool = False) -> None:
    """Open a shell in an image, in this folder, as yourself.

    --dry-run prints the command.
    """
    specification_called(name, ROOT)
    argv = shell_command(lock.locked_images(ROOT)[name].reference, folder=Path.cwd(), terminal=sys.stdin.isatty())
    print(shlex.join(argv), flush=True)
    if not dry_run:
        code = subprocess.run(argv, check=False).returncode
        if code:
            raise Exit(code=code)


@suite_task
def prune(_: Context, dry_run: bool = False) -> None:
    """Remove local images of other contents than today's.

    Only the suite's own; --dry-run names them.
    """
    found = leftovers(ROOT, remove=not dry_run)
    print(*found or ("nothing is left over",), sep="\n")


namespace = Collection("images", build, verify, push, pin, check, outdated, diff, shell, prune)
namespace.add_task(list_, name="list")
