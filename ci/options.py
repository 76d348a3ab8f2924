"""What follows ``--`` on a session's command line: options of the suite, and Hydra overrides for verl."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from ci.errors import ConfigError
from ci.plan import EngineName
from ci.scenarios.documents import nearest
from ci.scenarios.hydra_values import parse_override
from ci.scenarios.model import Target

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one session, each with its default."""

    target: Target | Literal["auto"] = "auto"
    engine: EngineName | Literal["auto"] = "auto"
    verl: str | None = None
    image: str | None = None
    timeout_s: float | None = None
    keep: bool = False
    dry_run: bool = False
    json: bool = False
    arguments: tuple[str, ...] = ()
    """Hydra overrides, as given; in ``nox -s preflight`` names of scenarios among them."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint="`-- --help` lists the options")


def _duration(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text, re.ASCII)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no time: write 90s, 20m or 1.5h")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def _parser(session: str) -> _Parser:
    parser = _Parser(
        prog=f"nox -s {session} --",
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Knobs are environment variables: NUM_GPUS=4 nox -s e2e_fsdp2. `--dry-run` shows them all.",
    )
    parser.add_argument(
        "--target",
        choices=("auto", *get_args(Target)),
        default="auto",
        help="cpu is the rehearsal (default: %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", *get_args(EngineName)),
        default="auto",
        help="where the trainer runs (default: %(default)s)",
    )
    parser.add_argument(
        "--verl", metavar="VERSION|PATH|image", help="verl to test: a release, a checkout, or what the image holds"
    )
    parser.add_argument("--image", metavar="NAME", help="image of containers/images.yaml instead of the scenario's own")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=_duration,
        metavar="TIME",
        help="time limit instead of the scenario's own: 90s, 20m, 1h",
    )
    parser.add_argument("--keep", action="store_true", help="leave container and Ray session directory for a look")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, start nothing")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--help", action="store_true", help="show this")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="OVERRIDE",
        help="Hydra override for verl, such as trainer.total_training_steps=4",
    )
    return parser


class HelpRequested(Exception):  # noqa: N818  # not an error: it carries the text that was asked for
    """Carry the help text to whoever prints it."""


def parse(words: Sequence[str], *, session: str, overrides: bool = True) -> Options:
    """Return the options among the words, and the overrides between them in their order.

    Raises:
        ConfigError: naming the word that is unknown or wrong, and the nearest right one.
        HelpRequested: with the text, for ``--help``.
    """
    parser = _parser(session)
    known = tuple(name for action in parser._actions for name in action.option_strings)  # noqa: SLF001  # no public list
    for word in words:
        option = word.partition("=")[0]
        if word.startswith("-") and option not in known:
            raise ConfigError(f"unknown option `{option}`{nearest(option, known)}")
    for name in known:
        if words.count(name) > 1:
            raise ConfigError(f"`{name}` is given twice")
    parsed = vars(parser.parse_intermixed_args(list(words)))
    if parsed.pop("help"):
        raise HelpRequested(parser.format_help())
    arguments = tuple(parsed.pop("arguments"))
    if overrides:
        for argument in arguments:
            parse_override(argument)
    return Options(**parsed, arguments=arguments)
