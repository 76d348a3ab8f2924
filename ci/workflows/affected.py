"""Which scenarios a change touches, as GitHub would decide it from their path filters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ci.errors import ConfigError
from ci.scenarios.catalogue import load
from ci.workflows.changes import changed_since, listed
from ci.workflows.files import Files
from ci.workflows.paths import PathFilter, Pattern
from ci.workflows.triggers import patterns_of

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Whether one scenario is touched, and by what."""

    scenario: str
    touched: bool
    because: str


def choose(filters: Mapping[str, PathFilter], changed: Iterable[str] | None) -> tuple[Choice, ...]:
    """Return the choice for each scenario; None stands for a change that nobody knows, which touches all."""
    if changed is None:
        why = "what changed is unknown"
        return tuple(Choice(scenario=name, touched=True, because=why) for name in filters)
    files = Files(changed)
    return tuple(_choice(name, path_filter, files) for name, path_filter in filters.items())


def _choice(name: str, path_filter: PathFilter, files: Files) -> Choice:
    included = files.included(path_filter)
    if included:
        first = next(files.named(included))
        more = included.bit_count() - 1
        because = f"{first}, by `{_text(path_filter.decide(first).by)}`" + (f", and {more} more" if more else "")
    elif refused := next(files.named(files.matched(path_filter)), None):
        because = f"{refused} is taken out by `{_text(path_filter.decide(refused).by)}`"
    else:
        because = f"none of its patterns matches any of {len(files.paths)} files"
    return Choice(scenario=name, touched=bool(included), because=because)


def _text(pattern: Pattern | None) -> str:
    return pattern.text if pattern else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint="`nox -s affected -- --help` lists the options")


def _parser() -> _Parser:
    parser = _Parser(prog="nox -s affected --", allow_abbrev=False, description="Name the scenarios a change touches.")
    parser.add_argument("--base", metavar="REF", help="commit the change starts from; without it, files come on stdin")
    parser.add_argument("--verl", metavar="PATH", help="repository of the change (default: a checkout found here)")
    parser.add_argument("--explain", action="store_true", help="say of every scenario why it is in or out")
    parser.add_argument(
        "--run", action="store_true", help="run them, one after the other; other options go to each, such as --target"
    )
    return parser


def main(words: Sequence[str], run: Callable[[str, Sequence[str]], None]) -> None:
    """Print the sessions of the scenarios that a change touches, one a line, and run them where asked to.

    ``run`` runs one scenario with options, and exits when it fails.

    Raises:
        ConfigError: for an option that is not known, a commit that git does not know, or no list of files at all.
    """
    try:
        options, passed_on = _parser().parse_known_args(list(words))
    except SystemExit:  # argparse printed the help
        return
    if passed_on and not options.run:
        raise ConfigError(f"unknown option `{passed_on[0]}`", hint="with --run it would be handed on to each scenario")
    filters = {name: PathFilter.of(patterns_of(name, scenario)) for name, scenario in load().items()}
    choices = choose(filters, _changed(options.base, options.verl))
    if options.explain:
        _explain(choices)
    touched = [choice.scenario for choice in choices if choice.touched]
    print(*(f"e2e_{name}" for name in touched), sep="\n", end="\n" if touched else "", flush=True)
    if options.run:
        _run(touched, run, [*passed_on, *(("--verl", options.verl) if options.verl else ())])


def _changed(base: str | None, verl: str | None) -> frozenset[str] | None:
    if base is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigError("no change is named", hint="give --base REF, or a list of files on stdin")
        return listed(sys.stdin.read())
    repository = Path(verl).expanduser() if verl else _repository()
    changed = changed_since(base, repository)
    if changed is None:
        print(f"{base} and HEAD have no history in common in {repository}: every scenario counts", file=sys.stderr)
    return changed


def _repository() -> Path:
    """Return the checkout of verl that lies in the suite's folder, else the repository that the suite lies in."""
    nested = ROOT / "verl"
    return nested if (nested / "verl" / "trainer" / "main_ppo.py").is_file() else ROOT


def _explain(choices: Iterable[Choice]) -> None:
    table = Table("session", "touched", Column("because", overflow="fold"))
    for choice in choices:
        table.add_row(f"e2e_{choice.scenario}", "yes" if choice.touched else "no", Text(choice.because))
    Console(stderr=True).print(table)  # standard output is for the names alone


def _run(names: Iterable[str], run: Callable[[str, Sequence[str]], None], words: Sequence[str]) -> None:
    failed: dict[str, int] = {}
    for name in names:
        try:
            run(name, words)
        except SystemExit as ended:
            failed[name] = ended.code if isinstance(ended.code, int) else 1
    if failed:
        print(f"failed: {', '.join(f'e2e_{name} ({code})' for name, code in failed.items())}", file=sys.stderr)
        sys.exit(next(iter(failed.values())))
