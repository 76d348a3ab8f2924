"""What a check of a configuration found: one problem, one line, one hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, or worth a look, about one scenario's configuration."""

    name: str
    """The key or the fact that it is about."""
    message: str
    hint: str = ""
    state: Literal["failed", "warning"] = "failed"

    def plain(self) -> dict[str, str]:
        """Return a form that JSON can keep."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Problem:
        """Return what `plain` was made from."""
        return cls(**plain)


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> tuple[str, ...]:
    """Return the known names that a misspelt one may have meant, the best first; none where nothing is near."""
    return tuple(difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=likeness))


def nearest_keys(key: str, known: Iterable[str], *, count: int = 3) -> tuple[str, ...]:
    """Return the configuration keys that a wrong one may have meant, the best first.

    A key may be misspelt in place, or right but in another section: both the whole key and its last part count.
    """
    keys = sorted(set(known))
    parent, _, last = key.rpartition(".")
    lasts = [candidate.rpartition(".")[2] for candidate in keys]
    alike = set(difflib.get_close_matches(last, set(lasts), n=5, cutoff=0.75))
    whole = difflib.SequenceMatcher(b=key, autojunk=False)
    part = difflib.SequenceMatcher(b=last, autojunk=False)

    def likeness(candidate: str) -> float:
        section, _, end = candidate.rpartition(".")
        whole.set_seq1(candidate)
        part.set_seq1(end)
        return whole.ratio() + part.ratio() + (0.5 if section == parent else 0.0)

    near = [
        candidate
        for candidate, end in zip(keys, lasts, strict=True)
        if end in alike or candidate.rpartition(".")[0] == parent
    ]
    ranked = sorted(near or difflib.get_close_matches(key, keys, n=count, cutoff=0.6), key=likeness, reverse=True)
    # What is much less alike than the best one is noise.
    return tuple(candidate for candidate in ranked[:count] if likeness(candidate) > 0.8 * likeness(ranked[0]))
