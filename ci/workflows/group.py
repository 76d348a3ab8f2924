"""Scenarios that one workflow starts: one alone, or several that share a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ci.errors import collected
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.model import Scenario
from ci.workflows.settings import Settings
from ci.workflows.triggers import ELASTIC, WORKFLOWS, patterns_of


@dataclass(frozen=True, kw_only=True)
class Group:
    """The scenarios of one workflow, in the order in which they run."""

    name: str
    """Also the workflow's file name, without its ending."""
    scenarios: dict[str, Scenario]
    files: tuple[str, ...]
    """Path filters of the suite's files that decide how these scenarios run."""

    @property
    def first(self) -> Scenario:
        """Return the scenario that speaks for the group in all that its scenarios have in common."""
        return next(iter(self.scenarios.values()))

    @property
    def triggers(self) -> tuple[str, ...]:
        """Return the path filters of verl's repository that start any of the scenarios."""
        return tuple(dict.fromkeys(pattern for scenario in self.scenarios.values() for pattern in scenario.triggers))


def groups(catalogue: Catalogue, settings: Settings) -> tuple[Group, ...]:
    """Return the groups, every scenario in exactly one.

    Raises:
        ConfigError: when scenarios that share a machine do not fit together.
    """
    problems = list(_problems(catalogue, settings))
    if problems:
        raise collected(problems, what="shared_machines of settings.yaml does not fit the catalogue")
    shared = {name: group for group, names in settings.shared_machines.items() for name in names}
    names: dict[str, tuple[str, ...]] = {}
    for name in catalogue:
        group = shared.get(name, f"e2e_{name}")
        names[group] = settings.shared_machines.get(group, (name,))
    return tuple(
        Group(
            name=group,
            scenarios={name: catalogue[name] for name in members},
            files=_files(group, {name: catalogue[name] for name in members}, settings),
        )
        for group, members in sorted(names.items())
    )


def _files(group: str, scenarios: dict[str, Scenario], settings: Settings) -> tuple[str, ...]:
    workflows = [f"{WORKFLOWS}/{group}.yml"]
    if any(settings.machines[scenario.accelerator].kind == "elastic" for scenario in scenarios.values()):
        workflows.append(ELASTIC)
    if settings.suite.repository is not None:
        return tuple(workflows)  # the suite's files lie elsewhere, and change with the pin
    suite = [
        pattern
        for name, scenario in scenarios.items()
        for pattern in patterns_of(name, scenario)[len(scenario.triggers) :]
    ]
    return (*dict.fromkeys(suite), *workflows)


def _problems(catalogue: Catalogue, settings: Settings) -> Iterator[str]:
    seen: dict[str, str] = {}
    for group, names in settings.shared_machines.items():
        for name in names:
            if name not in catalogue:
                yield f"{group}: no scenario is called `{name}`"
            if name in seen:
                yield f"{group}: `{name}` is in {seen[name]} already"
            seen[name] = group
        scenarios = [catalogue[name] for name in names if name in catalogue]
        for field in ("accelerator", "image", "cadence"):
            values = {str(getattr(scenario, field)) for scenario in scenarios}
            if len(values) > 1:
                yield f"{group}: one machine, but {field} is {' and '.join(sorted(values))}"
        filters = {scenario.triggers for scenario in scenarios}
        if len(filters) > 1 and any(pattern.startswith("!") for triggers in filters for pattern in triggers):
            # the last pattern that matches wins, so one list behind another would take away what the first lets in
            yield f"{group}: with `!` in their triggers, scenarios share a machine only when the triggers are the same"
