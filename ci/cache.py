"""Where the suite keeps what it can make again: verl releases, composed configurations, answers of slow checks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

CACHE_VARIABLE = "VERL_E2E_CACHE"

Answer = TypeVar("Answer")


def cache_directory(*parts: str) -> Path:
    """Return a folder of the suite's cache, made if need be.

    ``VERL_E2E_CACHE`` names the cache as a whole; else it is ``verl-e2e`` under ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verl-e2e"
    directory = base.expanduser().absolute().joinpath(*parts)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Fill a folder beside the target, then rename it: the target is there as a whole or not at all.

    Where another process was faster, its folder stays and this one is thrown away.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def digest(parts: Iterable[str]) -> str:
    """Return a short hash that stands for all parts, in their order."""
    state = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        state.update(f"{len(encoded)}:".encode())  # the length first, so that ("ab", "c") is not ("a", "bc")
        state.update(encoded)
    return state.hexdigest()[:32]


def remembered(kind: str, key: str, make: Callable[[], Answer]) -> Answer:
    """Return the JSON-able answer kept under the key, or make and keep it.

    The key has to stand for everything the answer depends on. A kept answer that cannot be read is made again.
    """
    path = cache_directory(kind) / f"{key}.json"
    try:
        answer: Answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        answer = make()
        write_whole(path, json.dumps(answer))
    return answer


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
