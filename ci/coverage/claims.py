"""What the scenarios say they cover, and whether their configuration bears it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from ci.coverage.ledger import CapabilityEntry, Ledger
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.documents import nearest
from ci.scenarios.hydra_values import written
from ci.scenarios.model import Accelerator, Scenario
from ci.scenarios.resolution import resolve

Part = tuple[str, Accelerator]
"""What the ledger counts: a capability on one kind of device."""


def covered(catalogue: Catalogue) -> dict[Part, tuple[str, ...]]:
    """Return the scenarios that claim each capability on each kind of device."""
    parts: dict[Part, list[str]] = {}
    for name, scenario in catalogue.items():
        for capability in scenario.covers:
            parts.setdefault((capability, scenario.accelerator), []).append(name)
    return {part: tuple(names) for part, names in parts.items()}


def claim_problems(catalogue: Catalogue, ledger: Ledger) -> Iterator[str]:
    """Yield each claim that names no capability, or that the scenario's own configuration does not bear out."""
    for name, scenario in catalogue.items():
        settings = configuration(name, scenario)
        for capability in scenario.covers:
            entry = ledger.capabilities.get(capability)
            if entry is None:
                known = tuple(ledger.capabilities)
                yield f"e2e_{name}: covers: no capability `{capability}`{nearest(capability, known)}"
            else:
                for complaint in lacking(entry, settings, scenario.accelerator):
                    yield f"e2e_{name} claims {capability}, but {complaint}"


def configuration(
    name: str, scenario: Scenario, *, knobs: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
) -> dict[str, str]:
    """Return the overrides that win, by key without Hydra's signs, as text.

    Raises:
        ConfigError: when the knobs do not fit the scenario.
    """
    resolved = resolve(name, scenario, environment=dict(knobs or {}), rehearsal=False, cache="").scenario
    given = dict(argument.split("=", 1) for argument in arguments)
    pairs = {**resolved.overrides, **resolved.amendments, **given}
    return {key.lstrip("+"): written(value) for key, value in pairs.items()}


def lacking(entry: CapabilityEntry, settings: Mapping[str, str], accelerator: Accelerator) -> Iterator[str]:
    """Yield what speaks against a capability being covered by these settings."""
    if entry.accelerator not in {None, accelerator}:
        yield f"that is a matter of {entry.accelerator}, and it runs on {accelerator}"
    for key, wanted in entry.evidence.items():
        globs = (wanted,) if isinstance(wanted, str) else wanted
        value = settings.get(key)
        if value is None or not any(fnmatchcase(value.casefold(), glob.casefold()) for glob in globs):
            yield f"{key} is {'not set' if value is None else value}, not {' or '.join(globs)}"
