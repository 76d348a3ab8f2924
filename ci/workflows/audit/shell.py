"""The commands of a shell text, well enough to tell which scripts it starts and what it installs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ci.workflows.audit.document import Text

_EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SEPARATOR = frozenset({";", "&&", "||", "|", "&", ";;", "|&", "(", ")"})
_IN_FRONT = frozenset({"then", "do", "else", "if", "while", "!", "{", "sudo", "time"})
_ARITHMETIC = re.compile(r"\$\(\(.*?\)\)", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\([^()]*\)")
_ARRAY = re.compile(r"(?<![\w-])[A-Za-z_]\w*\+?=\([^()]*\)")
_OPEN_ARRAY = re.compile(r"^\s*(?:local |declare -a )?[A-Za-z_]\w*\+?=\([^)]*\Z")
_HEREDOC = re.compile(r"<<-?\s*['\"]?([A-Za-z_]+)['\"]?")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One simple command, and the line it begins on."""

    words: tuple[str, ...]
    """Without the variables that are set in front of it."""
    line: int

    @property
    def only_says(self) -> bool:
        """Return whether it prints its words, and does nothing with what they name."""
        return self.words[0] in {"echo", "printf"}


def commands(text: Text) -> Iterator[Command]:
    """Yield the commands of a workflow's ``run``."""
    first = text.line + 1 if text.block else text.line
    yield from commands_of(_EXPRESSION.sub("EXPRESSION", text), first_line=first)


def commands_of(script: str, *, first_line: int = 1) -> Iterator[Command]:
    """Yield the commands of a shell script.

    What is inside a here-document is none; what is inside ``$(...)`` is passed over.
    """
    for line, logical in _logical_lines(script):
        yield from _split(logical, first_line + line)


def _logical_lines(script: str) -> Iterator[tuple[int, str]]:
    """Yield lines with those that a backslash or an open quote continues, and the number of the first."""
    pending, start, until = "", 0, ""
    for number, line in enumerate(script.splitlines()):
        if until:
            until = "" if line.strip() == until else until
            continue
        start = start if pending else number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        if not _closed(pending) or _OPEN_ARRAY.search(pending):
            pending += "\n"
            continue
        here = _HEREDOC.search(pending)
        until = here[1] if here and "<<<" not in pending else ""
        yield start, pending
        pending = ""
    if pending:
        yield start, pending


def _closed(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


def _split(text: str, line: int) -> Iterator[Command]:
    text = _SUBSTITUTION.sub("OUTPUT", _ARITHMETIC.sub("0", text))
    text = _ARRAY.sub("ARRAY=0", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    try:
        tokens = list(lexer)
    except ValueError:  # a quote that the script never closes
        return
    for token in (*tokens, ";"):
        if token in _SEPARATOR:
            while words and (_ASSIGNMENT.match(words[0]) or words[0] in _IN_FRONT):
                words.pop(0)
            if words:
                yield Command(words=tuple(words), line=line)
            words = []
        else:
            words.append(token)
