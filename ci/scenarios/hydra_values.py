"""Values and overrides as Hydra's own grammar reads them."""

from __future__ import annotations

import functools

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from ci.errors import ConfigError


@functools.cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def parse_override(text: str) -> Override:
    """Return an override as Hydra reads it.

    Raises:
        ConfigError: with Hydra's own reason, or because it names several values at once, which only a sweep takes.
    """
    try:
        override = _parser().parse_override(text)
    except HydraException as error:
        reason = str(error).splitlines()[0]
        hint = "overrides look like key=value, +key=value or ~key"
        raise ConfigError(f"`{text}` is no Hydra override: {reason}", hint=hint) from error
    if override.is_sweep_override():
        raise ConfigError(
            f"`{text}` names several values: that is a sweep", hint="quote the value, or give a list as key=[a,b]"
        )
    return override


def reads_as_text(text: str) -> bool:
    """Return whether Hydra reads a bare value as this very text, interpolating and converting nothing."""
    try:
        return "${" not in text and parse_override(f"key={text}").value() == text
    except ConfigError:
        return False


def written(value: str | float | bool) -> str:
    """Return a value as verl's scripts write it behind the equals sign."""
    return str(value)
