"""Whether the packages around a run are still those that its image was built with."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping

from ci.errors import ImageError

_INVENTORY = """
import json
from importlib.metadata import distributions
print(json.dumps({found.metadata["Name"]: found.version for found in distributions()}))
"""
_OWN = frozenset({"verl"})
"""What a job is there to install: the verl under test."""
_METADATA = re.compile(r"/(?:site|dist)-packages/([^/]+)-([^/-]+)\.(?:dist|egg)-info$")
"""The folder that an installed package has beside its code: https://packaging.python.org/en/latest/specifications/recording-installed-packages/"""
_ADDED, _DELETED = 1, 2


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each package that is not as it was, the subject of the run left out."""
    names = sorted({*before, *after} - _OWN, key=str.lower)
    return tuple(
        f"{name}: {before.get(name, 'absent')} → {after.get(name, 'absent')}"
        for name in names
        if before.get(name) != after.get(name)
    )


def of_changes(changes: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the packages that differ in a container from its image, by the changes of its file system.

    Each change has ``Path`` and ``Kind``, as Docker's API answers: https://docs.docker.com/reference/api/engine/
    """
    kinds: dict[object, dict[str, str]] = {_ADDED: {}, _DELETED: {}}
    for change in changes:
        kind, found = change["Kind"], _METADATA.search(str(change["Path"]))
        if found and kind in kinds:
            kinds[kind][found[1].replace("_", "-")] = found[2]
    return differences(kinds[_DELETED], kinds[_ADDED])


def installed(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the packages of the image's own Python, asked anew: what is imported here is another environment's.

    ``environment`` is the run's: PATH in it finds the Python.

    Raises:
        ImageError: it does not answer.
    """
    try:
        done = subprocess.run(
            ("python3", "-c", _INVENTORY), capture_output=True, text=True, check=True, timeout=60, env=environment
        )
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ImageError(
            f"the image's python3 cannot say what it has: {error}", hint="`python3 -V` has to work in the image"
        ) from error
