"""The virtual environments that rehearsals run in: made once for each verl, reused by every later run.

All that verl needs lies in one environment, ``verl-checkout``, which a checkout uses as it is, with the checkout on
``PYTHONPATH``. A release has an environment of its own that adds the release's files to it, so that another release
takes a second instead of minutes and another 2 GB.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci.cache import digest, write_whole
from ci.errors import ConfigError
from ci.plan import Verl
from ci.rehearsal.location import REQUIREMENTS, python_of
from ci.rehearsal.torch_index import cpu_torch_index
from ci.verl.source import find_source

Run = Callable[[Sequence[str], Mapping[str, str]], None]
"""Runs a command with variables on top of the caller's own, and raises when it fails."""

PYTHON_VERSIONS = ((3, 11), (3, 12), (3, 13))
"""numpy and pandas as pinned need 3.11, and verl's tensordict has no wheels above 3.13."""
_MARKER = "complete.json"
# Imports make many objects and hardly any garbage: collecting less often saves each of verl's processes about a second.
_STARTUP = "import gc; gc.set_threshold(10_000)\n"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A Python that can rehearse one verl."""

    python: Path
    verl_version: str
    verl_commit: str | None
    site: Path
    """Folder that contains the package ``verl``."""
    reused: bool
    """True when nothing had to be made."""


def ensure_environment(*, verl: Verl, cache: Path, python: str | None = None, run: Run) -> Environment:
    """Return the environment for a release or a checkout of verl, made where it is missing, incomplete or outdated.

    An environment is complete when its marker is there, which is written last: one whose making was interrupted is
    made again. Processes that want the same environment at once wait for the first. ``python`` names the interpreter
    to make environments with; without it a suitable one is looked for.

    Raises:
        ConfigError: no usable Python, or verl is no release or checkout.
        NetworkError: the release is not in the cache and the index did not answer.
    """
    source = find_source(verl)
    base = _resolved(python) if python else None
    dependencies = python_of(Verl(kind="checkout", name=str(source.root)), cache).parent.parent
    made = _ensure(
        dependencies, key=_key(), base=base, build=lambda: _make_dependencies(dependencies, base=base, run=run)
    )
    home = python_of(verl, cache).parent.parent
    if verl.kind == "release":
        layers = (_site_packages(dependencies), source.root)
        made |= _ensure(
            home,
            key=digest((_key(), *map(str, layers))),
            base=base,
            build=lambda: _make_layer(home, on=dependencies, layers=layers, run=run),
        )
    return Environment(
        python=home / "bin" / "python",
        verl_version=source.version,
        verl_commit=source.commit,
        site=source.root,
        reused=not made,
    )


def _key() -> str:
    """Stand for what an environment is made from."""
    return digest((REQUIREMENTS.read_text(encoding="utf-8"), _STARTUP))


def _ensure(home: Path, *, key: str, base: str | None, build: Callable[[], None]) -> bool:
    """Make the environment unless it is complete; return whether it was made."""
    if _is_complete(home, key=key, base=base):
        return False
    with locked(home):
        if _is_complete(home, key=key, base=base):
            return False
        shutil.rmtree(home, ignore_errors=True)
        build()
        write_whole(home / _MARKER, json.dumps({"key": key, "base": _base_of(home)}))
    return True


def _is_complete(home: Path, *, key: str, base: str | None) -> bool:
    """Tell whether the marker is there and right, and the interpreter it was made with still exists."""
    try:
        marker = json.loads((home / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    fits = bool(marker["key"] == key) and base in {None, marker["base"]}
    return fits and (home / "bin" / "python").exists()


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep other processes from making the same thing; the lock goes with the process, however that ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_dependencies(home: Path, *, base: str | None, run: Run) -> None:
    run((base or _find_python(), "-m", "venv", str(home)), {})
    python = str(home / "bin" / "python")
    pip = (python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
    install = (*pip, "install", "--progress-bar=off")
    if (index := cpu_torch_index(os.environ)) is not None:
        torch = next(
            line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if line.startswith("torch==")
        )
        run((*install, "--no-deps", "--timeout=10", "--retries=1", "--index-url", index, torch), {})
    run((*install, "--requirement", str(REQUIREMENTS)), {})
    _write_startup(home, _STARTUP)


def _make_layer(home: Path, *, on: Path, layers: Sequence[Path], run: Run) -> None:
    run((_base_of(on), "-m", "venv", "--without-pip", str(home)), {})
    # addsitedir also reads the .pth files there, which a bare line with the folder would not.
    lines = "".join(f"import site; site.addsitedir({str(layer)!r})\n" for layer in layers)
    _write_startup(home, _STARTUP + lines)


def _write_startup(home: Path, text: str) -> None:
    """Write what each interpreter of the environment does first: https://docs.python.org/3/library/site.html."""
    (_site_packages(home) / "verl-rehearsal.pth").write_text(text, encoding="utf-8")


def _site_packages(home: Path) -> Path:
    return next(iter(home.glob("lib/python3.*/site-packages")), home / "lib" / "site-packages")


def _base_of(home: Path) -> str:
    """Return the interpreter that an environment was made with."""
    return str((home / "bin" / "python").resolve())


def _resolved(python: str) -> str:
    """Return the interpreter behind a name or path, once it is known to be usable."""
    return _find_python((python,))


def _find_python(candidates: Sequence[str] | None = None) -> str:
    """Return the first interpreter that can make the environment.

    Raises:
        ConfigError: none can; names each with its reason.
    """
    wanted = ", ".join(f"{major}.{minor}" for major, minor in PYTHON_VERSIONS)
    if candidates is None:
        candidates = (sys.executable, *(f"python{major}.{minor}" for major, minor in PYTHON_VERSIONS))
    reasons = []
    for candidate in candidates:
        path, version, has_pip = _asked(candidate)
        if version is None:
            reasons.append(f"{candidate} is not there")
        elif version not in PYTHON_VERSIONS:
            reasons.append(f"{candidate} is Python {version[0]}.{version[1]}")
        elif not has_pip:
            reasons.append(f"{candidate} has no ensurepip")
        else:
            return path
    raise ConfigError(
        f"no Python to rehearse with: it takes {wanted}, and {', '.join(reasons)}",
        hint="install one of these with its venv module (Debian: apt install python3 python3-venv)",
    )


def _asked(candidate: str) -> tuple[str, tuple[int, int] | None, bool]:
    """Ask an interpreter where the one behind it lies, which version it is, and whether it can put pip somewhere."""
    code = (
        "import importlib.util, json, os, sys; "
        "print(json.dumps([os.path.realpath(sys.executable), *sys.version_info[:2], "
        "importlib.util.find_spec('ensurepip') is not None]))"
    )
    try:
        answer = subprocess.run((candidate, "-I", "-c", code), capture_output=True, text=True, check=True, timeout=20)
        path, major, minor, has_pip = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return candidate, None, False
    return path, (major, minor), has_pip
