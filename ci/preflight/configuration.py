"""verl's own Hydra configuration, composed from its sources with the overrides of a plan, without importing verl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hydra
import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ci.cache import digest, remembered
from ci.preflight.problem import Problem, nearest, nearest_keys
from ci.preflight.value_types import type_problem
from ci.preflight.vintage import VINTAGE
from ci.verl.source import Source

CONFIGURATION_NAME = "ppo_trainer"

Plain = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Composition:
    """The configuration that verl would see, before its dataclasses rewrite it."""

    configuration: Plain | None
    """Interpolations unresolved, as Hydra hands it over; None where Hydra refuses it."""
    given: Mapping[str, Any]
    """What the overrides set: key to value, the last one of a key."""
    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """Return the configuration as YAML."""
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        return "" if self.configuration is None else yaml.dump(self.configuration, Dumper=dumper, sort_keys=False)


@dataclass(kw_only=True)
class Composer:
    """Composes configurations of one verl; what they share is composed once."""

    source: Source
    _defaults: dict[tuple[str, ...], Plain] = field(default_factory=dict)

    def compose(self, overrides: Sequence[str]) -> Composition:
        """Compose the configuration, collecting every problem with an override instead of stopping at the first."""
        key = digest((VINTAGE, hydra.__version__, self.source.fingerprint, *overrides))
        kept = remembered("compositions", key, lambda: self._composed(overrides))
        return Composition(
            configuration=kept["configuration"],
            given=kept["given"],
            problems=tuple(Problem.from_plain(problem) for problem in kept["problems"]),
        )

    def _composed(self, overrides: Sequence[str]) -> Plain:
        problems: list[Problem] = []
        parsed = [override for text in overrides if (override := _parsed(text, problems)) is not None]
        groups, values = self._split(parsed, problems)
        configuration: Plain | None = None
        try:
            defaults = self._default(tuple(groups))
        except (HydraException, OmegaConfBaseException) as error:
            problems.append(Problem(name=CONFIGURATION_NAME, message=_why(error), hint="is this verl whole?"))
        else:
            configuration = _applied(_fitting(values, defaults, problems), defaults, problems)
        given = {override.key_or_group: override.value() for override in values if not override.is_sweep_override()}
        return {
            "configuration": configuration,
            "given": given,
            "problems": [problem.plain() for problem in problems],
        }

    def _split(self, overrides: Sequence[Override], problems: list[Problem]) -> tuple[list[str], list[Override]]:
        """Tell choices of a config group from values, and check the choices."""
        groups: list[str] = []
        values: list[Override] = []
        for override in overrides:
            folder = self.source.configuration / override.key_or_group
            if override.key_or_group.partition(".")[0].partition("/")[0] == "hydra":
                continue  # of Hydra itself: verl does not see it
            if not folder.is_dir() or isinstance(override.value(), dict):
                values.append(override)
                continue
            options = sorted(path.stem for path in folder.glob("*.yaml"))
            choice = str(override.value())
            if choice in options or override.is_delete():
                groups.append(_text(override))
                continue
            meant = nearest(choice, options)
            problems.append(
                Problem(
                    name=override.key_or_group,
                    message=f"{self.source} has no {override.key_or_group}={choice}",
                    hint=f"did you mean {meant[0]}?" if meant else f"one of {', '.join(options)}",
                )
            )
        return groups, values

    def _default(self, groups: tuple[str, ...]) -> Plain:
        """Return the configuration without overrides, which says what keys there are and of which type."""
        if groups not in self._defaults:
            key = digest((VINTAGE, hydra.__version__, self.source.fingerprint, "default", *groups))
            self._defaults[groups] = remembered("compositions", key, lambda: _compose(self.source, groups))
        return self._defaults[groups]


def _compose(source: Source, groups: Sequence[str]) -> Plain:
    # The context puts back the global state that it found.
    with hydra.initialize_config_dir(config_dir=str(source.configuration.absolute()), version_base=None):
        return _plain(hydra.compose(CONFIGURATION_NAME, overrides=list(groups)))


def _applied(overrides: Sequence[Override], defaults: Plain, problems: list[Problem]) -> Plain:
    """Apply overrides in their order, one by one so that each problem is seen.

    Composing anew for every scenario would read the same YAML over and over, for half a second each. What Hydra does
    with values after it has read the defaults is one function of it, which has no public name.
    """
    configuration = OmegaConf.create(defaults)
    OmegaConf.set_struct(configuration, value=True)
    for override in overrides:
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], configuration)  # noqa: SLF001 (see above)
        except (HydraException, OmegaConfBaseException) as error:
            problems.append(Problem(name=override.key_or_group, message=_why(error), hint=f"look at {_text(override)}"))
    return _plain(configuration)


def _plain(configuration: DictConfig) -> Plain:
    container = OmegaConf.to_container(configuration, resolve=False)
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}


def _parsed(text: str, problems: list[Problem]) -> Override | None:
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        reason = str(error).splitlines()[0]
        problems.append(
            Problem(
                name=text.partition("=")[0] or text,
                message=f"Hydra cannot read the override {text!r}: {reason}",
                hint="KEY=VALUE, with quotes around a value that has commas, spaces, braces or an equals sign",
            )
        )
        return None
    if override.is_sweep_override():
        problems.append(
            Problem(
                name=override.key_or_group,
                message=f"{text!r} gives several values, which Hydra takes for a sweep of several runs",
                hint="give one value; a list needs brackets: KEY=[a,b]",
            )
        )
        return None
    return override


def _fitting(overrides: Sequence[Override], defaults: Plain, problems: list[Problem]) -> list[Override]:
    """Return the overrides that Hydra will take, in their order, and say what is wrong with the rest."""
    known = dict(_flat(defaults))
    fitting: list[Override] = []
    for override in overrides:
        problem = _problem(override, known)
        if problem is None or problem.state == "warning":
            fitting.append(override)
            _learn(override, known)
        if problem is not None:
            problems.append(problem)
    return fitting


def _problem(override: Override, known: Mapping[str, Any]) -> Problem | None:
    key, text = override.key_or_group, _text(override)
    if override.package is not None:
        return Problem(name=key, message=f"{text!r} chooses a config group, but verl has no group {key}")
    if "[" in key:
        return None  # an index into a list: Hydra decides
    if key not in known:
        adds = override.is_add() or override.is_force_add()
        return _beside(key, known) if adds else _unknown(key, known, add="" if override.is_delete() else text)
    value = override.value()
    if override.is_add() and known[key] is not None and not isinstance(value, (dict, list)):
        return Problem(name=key, message=f"{text!r} adds a key that verl already has", hint=f"write {text[1:]}")
    return None if override.is_delete() else type_problem(key, value, known[key])


def _unknown(key: str, known: Mapping[str, Any], *, add: str) -> Problem:
    parent = key.rpartition(".")[0]
    if add and parent in known and known[parent] in ({}, None):
        hint = f"{parent} is open: +{add} adds a key to it"
    elif meant := nearest_keys(key, known):
        hint = f"nearest: {', '.join(meant)}"
    else:
        hint = "no key of verl's configuration is near it"
    return Problem(name=key, message=f"verl's configuration has no key {key}", hint=hint)


def _beside(key: str, known: Mapping[str, Any]) -> Problem | None:
    """Warn of a key that is added right beside one that is spelt nearly the same."""
    parent, _, last = key.rpartition(".")
    siblings = {name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == parent}
    alike = nearest(last, siblings, likeness=0.9)  # num_gpus stands beside num_cpus by right
    if not alike:
        return None
    return Problem(
        name=key,
        message=f"+{key} adds a key beside {alike[0]}, which is spelt nearly the same",
        hint=f"was {parent}.{alike[0]} meant?",
        state="warning",
    )


def _learn(override: Override, known: dict[str, Any]) -> None:
    """Know what an override that was taken has added, or taken away."""
    key = override.key_or_group
    if override.is_delete():
        for name in [name for name in known if name == key or name.startswith(f"{key}.")]:
            del known[name]
        return
    if key in known and not (override.is_add() or override.is_force_add()):
        return
    parts = key.split(".")
    for end in range(1, len(parts)):
        known.setdefault(".".join(parts[:end]), {})
    value = override.value()
    known[key] = value
    if isinstance(value, dict):
        known.update((f"{key}.{name}", inner) for name, inner in _flat(value))


def _flat(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a tree, sections included, with its value."""
    for name, value in tree.items():
        yield f"{prefix}{name}", value
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")


def _text(override: Override) -> str:
    return str(override.input_line)


def _why(error: BaseException) -> str:
    """Return what Hydra says, with the reason it chained to it, on one line."""
    reasons = [str(error), *([str(error.__cause__)] if error.__cause__ else [])]
    return "; ".join(" ".join(reason.split()) for reason in reasons)


def as_config(configuration: Plain) -> DictConfig:
    """Return a configuration that resolves its interpolations when it is read."""
    return OmegaConf.create(configuration)
