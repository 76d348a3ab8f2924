"""From a plan's verl to a folder that contains the package, without importing it and without touching a checkout."""

from __future__ import annotations

import difflib
import io
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ci.cache import cache_directory, digest, new_directory
from ci.errors import ConfigError, NetworkError
from ci.plan import Verl
from ci.verl.index import download, index_url, project_files
from ci.verl.installed import installed_package

_WHEEL = re.compile(r"verl-(?P<version>[^-]+)-py[^-]*-none-any\.whl")
_PROOF = Path("verl/trainer/main_ppo.py")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A verl that can be read."""

    root: Path
    """Folder that contains the package ``verl``."""
    version: str
    commit: str | None
    """Commit of a checkout, with ``+dirty`` behind it where files of it were changed; None for the rest."""
    fingerprint: str
    """Stands for the content: what was found out about one fingerprint holds for the same one later."""

    @property
    def configuration(self) -> Path:
        """Return the folder of verl's Hydra configuration."""
        return self.root / "verl" / "trainer" / "config"

    def __str__(self) -> str:
        return f"verl {self.version}" + (f" ({self.commit[:9]}{'+dirty' * self.dirty})" if self.commit else "")

    @property
    def dirty(self) -> bool:
        """Tell whether a checkout has changes that its commit does not have."""
        return self.commit is not None and self.commit.endswith("+dirty")


def find_source(verl: Verl) -> Source:
    """Return where to read the plan's verl; a release is fetched once.

    Raises:
        ConfigError: No such release, the folder is no checkout of verl, or this machine's Python has none.
        NetworkError: The release is not in the cache and the index did not answer.
        ImageError: The image is not there, or holds no verl.
    """
    match verl.kind:
        case "release":
            return _release(verl.name)
        case "checkout":
            return _checkout(Path(verl.name))
        case "installed":
            return _checkout(installed_package(verl.name))
        case "image":
            from ci.verl.image import package_from_image  # here, because the Docker SDK takes 0.2 s to import

            root, identifier = package_from_image(verl.name)
            return Source(root=root, version=_version(root), commit=None, fingerprint=f"image:{identifier}")


def _release(version: str) -> Source:
    version = version.removeprefix("v")
    root = cache_directory("releases") / f"verl-{version}"
    if not (root / _PROOF).is_file():
        content = _wheel(version)
        with new_directory(root) as directory, zipfile.ZipFile(io.BytesIO(content)) as wheel:
            wheel.extractall(directory)
    return Source(root=root, version=_version(root), commit=None, fingerprint=f"release:{version}")


def _wheel(version: str) -> bytes:
    """Fetch the wheel of a release."""
    index = index_url()
    try:
        files = project_files("verl", index=index)
    except NetworkError as error:
        kept = sorted(path.name.removeprefix("verl-") for path in cache_directory("releases").glob("verl-*"))
        has = f"; the cache has {', '.join(kept)}" if kept else ""
        raise NetworkError(f"verl {version} is not in the cache, and {error.message}{has}", hint=error.hint) from error
    wheels = {match["version"]: file for file in files if (match := _WHEEL.fullmatch(file.name))}
    if version not in wheels:
        nearest = difflib.get_close_matches(version, wheels, n=3, cutoff=0.5) or list(wheels)[-3:]
        raise ConfigError(
            f"there is no verl {version}; the nearest releases are {', '.join(nearest)}",
            hint="--verl takes a release, or the path of a checkout",
        )
    return download(wheels[version])


def _checkout(root: Path) -> Source:
    if not (root / _PROOF).is_file():
        raise ConfigError(
            f"{root} is no checkout of verl: it has no {_PROOF}",
            hint="give the folder that contains the package: git clone https://github.com/verl-project/verl",
        )
    commit = _git(root, "rev-parse", "HEAD")
    if commit and _git(root, "status", "--porcelain", "--untracked-files=no"):
        commit += "+dirty"
    return Source(root=root, version=_version(root), commit=commit, fingerprint=f"checkout:{_stamp(root)}")


def _git(root: Path, *arguments: str) -> str | None:
    """Ask git about the checkout; None where it is none, or belongs to a repository around it."""
    # No optional locks: a status would rewrite the index of a checkout that is not ours.
    command = ("git", "--no-optional-locks", "-C", str(root), *arguments)
    try:
        top = subprocess.run(
            ("git", "-C", str(root), "rev-parse", "--show-toplevel"), capture_output=True, text=True, check=True
        )
        if Path(top.stdout.strip()).resolve() != root.resolve():
            return None
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _stamp(root: Path) -> str:
    """Stand for the files of a checkout by name, size and time: reading 600 files takes longer than what is saved."""
    files = (path for path in sorted((root / "verl").rglob("*")) if path.suffix in {".py", ".yaml"})
    return digest(f"{path}:{(state := path.stat()).st_size}:{state.st_mtime_ns}" for path in files)


def _version(root: Path) -> str:
    """Read what verl says of itself."""
    path = root / "verl" / "version" / "version"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else "unknown"
