"""Many files, of which many path filters select some, at once."""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator

from ci.workflows.paths import PathFilter, Pattern


class Files:
    """Many files, sorted, of which filters select some: a set of them is a number with a bit for each file.

    A pattern looks only at the files that begin with its prefix, and the same pattern of several filters looks once.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted(set(paths))
        self._matched: dict[Pattern, int] = {}
        self._text = "\0".join(self.paths)  # a search for a text in all files at once is a hundred times faster
        self._starts = list(itertools.accumulate((len(path) + 1 for path in self.paths), initial=0))

    def matching(self, wanted: Pattern) -> int:
        """Return the files that a pattern, without its sign, matches."""
        if wanted not in self._matched:
            self._matched[wanted] = self._match(wanted)
        return self._matched[wanted]

    def _match(self, wanted: Pattern) -> int:
        first = bisect.bisect_left(self.paths, wanted.prefix)
        if wanted.literal:
            return 1 << first if self.paths[first : first + 1] == [wanted.prefix] else 0
        after = bisect.bisect_left(self.paths, True, first, key=lambda path: not path.startswith(wanted.prefix))
        if wanted.rest is None:
            return (1 << after) - (1 << first)
        fullmatch, skip = wanted.rest.fullmatch, len(wanted.prefix)
        digits = bytearray(b"0" * (after - first + 1))
        for index in self._holding(wanted.needle, first, after):
            if fullmatch(self.paths[index], skip):
                digits[after - index] = ord("1")
        return int(digits, 2) << first

    def _holding(self, needle: str, first: int, after: int) -> Iterable[int]:
        """Return those files of a range that hold a text."""
        if not needle:
            return range(first, after)
        found: list[int] = []
        end = self._starts[after]
        position = self._text.find(needle, self._starts[first], end)
        while position >= 0:
            index = bisect.bisect_right(self._starts, position) - 1
            found.append(index)
            position = self._text.find(needle, self._starts[index + 1], end)
        return found

    def included(self, by: PathFilter) -> int:
        """Return the files that a filter includes."""
        chosen = 0
        for candidate in by.patterns:
            matched = self.matching(candidate)
            chosen = chosen & ~matched if candidate.negative else chosen | matched
        return chosen

    def matched(self, by: PathFilter) -> int:
        """Return the files that any pattern of a filter speaks of, whether it includes them or takes them out."""
        return functools.reduce(operator.or_, map(self.matching, by.patterns), 0)

    def named(self, chosen: int) -> Iterator[str]:
        """Yield the files of a set, in order."""
        while chosen:
            lowest = chosen & -chosen
            yield self.paths[lowest.bit_length() - 1]
            chosen ^= lowest
