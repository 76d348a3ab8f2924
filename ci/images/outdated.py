"""What is newer than what the images are made of: their bases in the registries, their packages on the index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import requests
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ci.errors import NetworkError, SuiteError
from ci.images.registry import Repository
from ci.images.specification import Base, specifications

INDEX = "https://pypi.org/simple"
_TIMEOUT_S = (5, 30)
_JSON = "application/vnd.pypi.simple.v1+json"  # https://peps.python.org/pep-0691/


@dataclass(frozen=True, kw_only=True)
class Newer:
    """One thing that an image has, and what there is of it by now."""

    image: str
    what: str
    has: str
    newest: str
    state: Literal["newer", "unknown"]
    """``unknown``: nobody could be asked; ``newest`` says why."""


def outdated(root: Path, *, index: str = INDEX) -> tuple[Newer, ...]:
    """Return what is newer by now, and what could not be found out; nothing is changed.

    Of packages those are looked at that images.yaml demands in one version; the rest follows from them.
    """
    found: list[Newer] = []
    newest: dict[str, str | NetworkError] = {}
    for name, specification in specifications(root).items():
        found += _base(name, specification.base)
        for package, version in specification.holds.versions.items():
            if package not in newest:
                newest[package] = _newest(package, index)
            found += _package(name, package, version, newest[package])
    return tuple(found)


def newest_release(files: Iterable[dict[str, Any]]) -> Version | None:
    """Return the newest version among an index's files that is neither yanked nor a pre-release."""
    versions = (_version(str(file["filename"])) for file in files if not file.get("yanked"))
    return max((version for version in versions if version is not None and not version.is_prerelease), default=None)


def _base(name: str, base: Base) -> tuple[Newer, ...]:
    repository, _, tag = base.tag.rpartition(":")
    has = base.digest or "no digest"
    try:
        digest = Repository.parse(repository).manifest(tag).digest
    except SuiteError as error:
        return (Newer(image=name, what=base.tag, has=has, newest=error.message, state="unknown"),)
    return () if digest == base.digest else (Newer(image=name, what=base.tag, has=has, newest=digest, state="newer"),)


def _package(name: str, package: str, version: str, newest: str | NetworkError) -> tuple[Newer, ...]:
    if isinstance(newest, NetworkError):
        return (Newer(image=name, what=package, has=version, newest=newest.message, state="unknown"),)
    if Version(newest) <= Version(version):
        return ()
    return (Newer(image=name, what=package, has=version, newest=newest, state="newer"),)


def _newest(package: str, index: str) -> str | NetworkError:
    try:
        answer = requests.get(f"{index}/{package.lower()}/", headers={"Accept": _JSON}, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        version = newest_release(answer.json()["files"])
    except (requests.RequestException, ValueError, KeyError) as error:
        return NetworkError(f"{index} does not tell about {package}: {error}")
    return NetworkError(f"{index} has no release of {package}") if version is None else str(version)


def _version(filename: str) -> Version | None:
    try:
        return parse_wheel_filename(filename)[1] if filename.endswith(".whl") else parse_sdist_filename(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
