"""GitHub's path filters: which changed files start a workflow.

The rules are those of
https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#filter-pattern-cheat-sheet:
a pattern matches a whole path from the repository's root, case matters, and a leading dot is a character like any
other. The last pattern that matches a file decides, so order matters.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ci.errors import ConfigError

_ANY_FOLDERS = "(?:.+/)?"
_ANYTHING = ".*"
_IN_FOLDER = "[^/]*"
_WILD = (_ANY_FOLDERS, _ANYTHING, _IN_FOLDER)


class PatternError(ConfigError):
    """Refuse a pattern that GitHub would not take, so that the whole workflow would never start."""


@dataclass(kw_only=True)
class _Piece:
    """What matches one character, or a run of any: an expression, and how often a character may come."""

    expression: str
    literal: str | None = None
    optional: bool = False
    repeated: bool = False

    @property
    def plain(self) -> bool:
        return self.literal is not None and not self.optional and not self.repeated

    def __str__(self) -> str:
        sign = {(True, True): "*", (True, False): "?", (False, True): "+", (False, False): ""}
        return self.expression + sign[self.optional, self.repeated]


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One pattern of a filter, compiled."""

    text: str
    negative: bool
    prefix: str
    """What every path that matches begins with."""
    rest: re.Pattern[str] | None
    """What follows the prefix; None: anything does."""
    literal: bool
    """True when nothing but the prefix itself matches."""
    needle: str
    """The longest text that every path that matches holds after the prefix."""

    def matches(self, path: str) -> bool:
        """Return whether the pattern, without its sign, matches the path."""
        if self.literal:
            return path == self.prefix
        if not path.startswith(self.prefix):
            return False
        return self.rest is None or self.rest.fullmatch(path, len(self.prefix)) is not None


@functools.cache
def pattern(text: str) -> Pattern:
    """Return a pattern compiled.

    Raises:
        PatternError: for a bracket without its end, a class of anything but letters and digits, or a lone backslash.
    """
    negative = text.startswith("!")
    pieces = _pieces(text.removeprefix("!"), text)
    plain = next((index for index, piece in enumerate(pieces) if not piece.plain), len(pieces))
    expressions = [str(piece) for piece in pieces[plain:]]
    return Pattern(
        text=text,
        negative=negative,
        prefix="".join(piece.literal or "" for piece in pieces[:plain]),
        rest=None if expressions == [_ANYTHING] else re.compile("".join(expressions), re.DOTALL),
        literal=not expressions,
        needle=max(_runs(pieces[plain:]), key=len, default=""),
    )


def _runs(pieces: list[_Piece]) -> Iterator[str]:
    """Yield the texts between what is not plain."""
    for is_plain, group in itertools.groupby(pieces, key=lambda piece: piece.plain):
        if is_plain:
            yield "".join(piece.literal or "" for piece in group)


def _pieces(body: str, text: str) -> list[_Piece]:
    if not body:
        raise PatternError(f"the path filter `{text}` is empty", hint="remove it, or name the files it stands for")
    pieces: list[_Piece] = []
    position = 0
    while position < len(body):
        character = body[position]
        if body.startswith("**/", position):
            # twice the same says no more, and would make matching slow
            if not pieces or pieces[-1].expression != _ANY_FOLDERS:
                pieces.append(_Piece(expression=_ANY_FOLDERS))
            position += 3
        elif character == "*":
            width = 2 if body.startswith("**", position) else 1
            _append_wild(pieces, _ANYTHING if width == 2 else _IN_FOLDER)  # noqa: PLR2004  # two stars
            position += width
        elif character in "?+" and pieces:
            _quantify(pieces[-1], character)
            position += 1
        elif character == "[":
            end = body.find("]", position)
            pieces.append(_Piece(expression=_class(body[position + 1 : end] if end > 0 else None, text)))
            position = end + 1
        else:
            if character == "\\":
                position += 1
                if position == len(body):
                    raise PatternError(f"the path filter `{text}` ends with a backslash that escapes nothing")
                character = body[position]
            pieces.append(_Piece(expression=re.escape(character), literal=character))
            position += 1
    return pieces


def _append_wild(pieces: list[_Piece], expression: str) -> None:
    before = pieces[-1].expression if pieces else ""
    if before == _IN_FOLDER and expression == _ANYTHING:
        pieces.pop()
    if before not in {_ANYTHING, expression}:
        pieces.append(_Piece(expression=expression))


def _quantify(piece: _Piece, sign: str) -> None:
    if piece.expression in _WILD:
        return  # as often as one likes already
    if sign == "?":
        piece.optional = True
    else:
        piece.repeated = True


def _class(members: str | None, text: str) -> str:
    if members is None:
        raise PatternError(f"the path filter `{text}` has `[` without `]`", hint="close it, or write `\\[`")
    # A-z is the range of ASCII: `_`, `^`, backtick and backslash are in it, and stand for themselves
    ends = re.findall(r"([A-z0-9])-([A-z0-9])", members)
    if not re.fullmatch(r"(?:[A-z]-[A-z]|[0-9]-[0-9]|[A-z0-9])+", members) or any(low > high for low, high in ends):
        raise PatternError(
            f"the path filter `{text}` has the class `[{members}]`, of which GitHub takes letters, digits and their "
            "ranges alone",
            hint="list what is meant, such as `[a-z0-9]`",
        )
    return "[" + re.sub(r"[\^\\\[]", r"\\\g<0>", members) + "]"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a filter makes of one file, and the pattern that decided; None: no pattern matched it."""

    path: str
    included: bool
    by: Pattern | None


@dataclass(frozen=True)
class PathFilter:
    """The patterns of ``paths``, in order."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> PathFilter:
        """Return the filter of these patterns."""
        return cls(tuple(pattern(text) for text in texts))

    def decide(self, path: str) -> Decision:
        """Return what the filter makes of a file: its last pattern that matches decides."""
        for candidate in reversed(self.patterns):
            if candidate.matches(path):
                return Decision(path=path, included=not candidate.negative, by=candidate)
        return Decision(path=path, included=False, by=None)

    def includes(self, path: str) -> bool:
        """Return whether the file starts the workflow."""
        return self.decide(path).included


def starts(files: Iterable[str], *, paths: Sequence[str] | None = None, ignore: Sequence[str] = ()) -> bool:
    """Return whether a change of these files starts a workflow with ``paths`` or ``paths-ignore``, or with neither.

    GitHub looks at the first 300 files of a change alone; this looks at all. Whether it heeds a ``!`` in
    ``paths-ignore`` is not documented; here it does, which starts rather more.
    """
    if paths is not None:
        return any(map(PathFilter.of(paths).includes, files))
    ignored = PathFilter.of(ignore)
    return not ignore or any(not ignored.includes(path) for path in files)
