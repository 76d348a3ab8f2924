"""The images as a table: where each is pinned, and how far it can be trusted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
from rich.console import Console
from rich.table import Table

from ci.engines import daemon
from ci.errors import SuiteError
from ci.images import lock
from ci.images.context import content_hash
from ci.images.specification import Specification, specifications


def print_images(root: Path, console: Console | None = None) -> None:
    """Print a row an image; an engine that does not answer is said, not raised."""
    table = Table("image", "verified", "pinned", "here", "reference", box=None, pad_edge=False)
    below: list[str] = []
    entries, images = lock.read(root), lock.locked_images(root)
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(daemon.connect(timeout_s=10))
        except SuiteError:
            client = None
        for name, specification in specifications(root).items():
            entry, image = entries.get(name, lock.Entry()), images[name]
            table.add_row(
                name,
                "yes" if image.verified else "no",
                _pinned(entry, content_hash(name, specification, root)),
                _here(client, image.reference),
                image.reference,
            )
            below.append(f"{name}: {specification.summary}")
            below += [f"  {note}" for note in _notes(specification, entry)]
    console = console or Console()
    console.print(table)
    console.print("", *below, sep="\n", highlight=False)


def _notes(specification: Specification, entry: lock.Entry) -> Iterator[str]:
    if not entry.verified:
        yield f"not verified: {entry.reason or specification.unverified_because or 'nobody ran `inv images.verify`'}"
    elif entry.reason:
        yield entry.reason
    if specification.base.digest is None:
        yield f"no digest of its base {specification.base.tag} is known"
    elif not specification.base.resolved:
        yield f"the digest of its base {specification.base.tag} was not resolved in a registry"


def _pinned(entry: lock.Entry, content: str) -> str:
    if entry.digest is None:
        return "no"
    return "yes" if entry.content_hash == content else "yes, from other inputs than these"


def _here(client: docker.DockerClient | None, reference: str) -> str:
    if client is None:
        return "no engine"
    try:
        size = client.images.get(reference).attrs["Size"]
    except docker.errors.ImageNotFound:
        return "no"
    except daemon.Errors:
        return "no answer"
    return f"{size / 1e9:.1f} GB"
