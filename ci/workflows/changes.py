"""The files of a change: from git, or from a list that somebody hands in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from ci.errors import ConfigError

_STATUS = re.compile(r"[ACDMRTUXB][0-9]*\t")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def changed_since(reference: str, repository: Path) -> frozenset[str] | None:
    """Return every path that differs from where the branch left the reference, the working tree's changes included.

    A renamed file counts under both names, a deleted one under its last. None when the two have no history in common
    here, as in a shallow clone: then nobody can say what changed.

    Raises:
        ConfigError: when the folder is no repository, or git knows no such commit.
    """
    if _git(repository, "rev-parse", "--git-dir") is None:
        raise ConfigError(f"{repository} is no git repository", hint="name one with --verl PATH")
    commit = f"{reference}^{{commit}}"
    if reference.startswith("-") or _git(repository, "rev-parse", "--verify", "--quiet", commit) is None:
        raise ConfigError(
            f"git knows no commit `{reference}` in {repository}",
            hint=f"fetch it: `git -C {repository} fetch origin {reference.removeprefix('origin/')}`",
        )
    start = _git(repository, "merge-base", reference, "HEAD")
    if start is None:
        return None
    # against the working tree, from the top of the repository; without renames a moved file has both its names
    differing = _git(repository, "diff", "--name-only", "--no-renames", "--no-relative", "-z", start.strip())
    untracked = _git(repository, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/")
    if differing is None or untracked is None:
        return None
    return frozenset(path for path in (*differing.split("\0"), *untracked.split("\0")) if path)


def listed(text: str) -> frozenset[str]:
    """Return the paths of a list: one a line or between NULs, plain or as ``git diff --name-status`` prints them."""
    paths: set[str] = set()
    for line in text.split("\0") if "\0" in text else text.splitlines():
        names = line.split("\t")[1:] if _STATUS.match(line) else [line]
        paths |= {_unquoted(name.strip()).removeprefix("./") for name in names}
    return frozenset(paths - {""})


def tracked(repository: Path) -> tuple[str, ...]:
    """Return the files of a repository, or of a folder that is none."""
    known = _git(repository, "ls-files", "-z", "--", ".")
    if known:
        return tuple(path for path in known.split("\0") if path)
    return tuple(path.relative_to(repository).as_posix() for path in repository.rglob("*") if path.is_file())


def _unquoted(name: str) -> str:
    """Return a path without the quotes that git puts around unusual ones (core.quotePath)."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):  # noqa: PLR2004  # two quotes
        return name
    return _ESCAPE.sub(_character, name[1:-1].encode()).decode(errors="surrogateescape")


def _character(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)  # noqa: PLR2004  # octal


def _git(repository: Path, *arguments: str) -> str | None:
    command = ("git", "-C", str(repository), *arguments)
    done = subprocess.run(command, capture_output=True, check=False, text=True, errors="surrogateescape")
    return done.stdout if done.returncode == 0 else None
