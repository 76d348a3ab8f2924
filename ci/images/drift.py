"""Whether the packages around a run are still those that its image was built with."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping

from ci.errors import ImageError
from ci.images.identity import Identity

_INVENTORY = """
import json
from importlib.metadata import distributions
print(json.dumps({found.metadata["Name"]: found.version for found in distributions()}))
"""
_OWN = frozenset({"verl"})
"""What a job is there to install: the verl under test."""


@contextlib.contextmanager
def undrifted(identity: Identity | None) -> Iterator[None]:
    """Compare the packages with the image's identity before and after the body; outside an image do nothing.

    Raises:
        ImageError: with every package that was replaced, added or removed.
    """
    if identity is None:
        yield
        return
    _refuse(identity, "a step before the run")
    yield
    _refuse(identity, "the run itself, or a data step of it,")


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each package that is not as it was, the suite's subject left out."""
    names = sorted({*before, *after} - _OWN, key=str.lower)
    return tuple(
        f"{name}: {before.get(name, 'absent')} → {after.get(name, 'absent')}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _refuse(identity: Identity, culprit: str) -> None:
    found = differences(identity.versions, _installed())
    if found:
        count = "1 package" if len(found) == 1 else f"{len(found)} packages"
        raise ImageError(
            "\n".join((f"{culprit} changed {count} of the image {identity.name}", *map("  - {}".format, found))),
            hint="install what a job needs into the image, or into an environment of its own",
        )


def _installed() -> Mapping[str, str]:
    """Return the packages of the image's own Python, asked anew: what is imported here is another environment's."""
    try:
        done = subprocess.run(("python3", "-c", _INVENTORY), capture_output=True, text=True, check=True, timeout=60)
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ImageError(
            f"the image's python3 cannot say what it has: {error}", hint="`python3 -V` has to work in the image"
        ) from error
