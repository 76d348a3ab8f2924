"""What the scenarios cost: device-hours in a week, and whether they stay within the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pydantic
from rich.console import Console
from rich.table import Column, Table

from ci.data_files import read
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.model import Accelerator, Declaration
from ci.scenarios.resolution import integer, resolve

Tier = Literal["gate", "extended"]
Cadence = Literal["pull_request", "nightly", "weekly", "label"]
DATA = Path(__file__).with_name("budget.yaml")
_MINUTES_PER_HOUR = 60


class Budget(Declaration):
    """How often each cadence runs, and what a tier may take."""

    runs_per_week: dict[Cadence, float]
    device_hours_per_week: dict[Tier, dict[Accelerator, float]]

    @pydantic.model_validator(mode="after")
    def _is_complete(self) -> Budget:
        if len(self.runs_per_week) < len(get_args(Cadence)):
            raise ValueError("runs_per_week has to name every cadence")
        return self


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one scenario takes in a week, at most."""

    scenario: str
    tier: Tier
    accelerator: Accelerator
    devices: int
    minutes: float
    runs: float
    machine: int
    """Devices of the machine it runs on: they are all held, whether it uses them or not."""

    @property
    def device_hours(self) -> float:
        """Return the hours of the devices it uses."""
        return self.devices * self.minutes / _MINUTES_PER_HOUR * self.runs

    @property
    def held_hours(self) -> float:
        """Return the hours of the devices that it keeps from others."""
        return self.machine * self.minutes / _MINUTES_PER_HOUR * self.runs


def load_budget(path: Path = DATA) -> Budget:
    """Return the budget.

    Raises:
        ConfigError: with a line for each problem.
    """
    return read(path, pydantic.TypeAdapter(Budget))


def costs(catalogue: Catalogue, budget: Budget, machines: Mapping[Accelerator, int]) -> tuple[Cost, ...]:
    """Return what each scenario takes with its default knobs; `machines` gives the devices of one machine."""
    found: list[Cost] = []
    for name, scenario in catalogue.items():
        resolved = resolve(name, scenario, environment={}, rehearsal=False, cache="").scenario
        found.append(
            Cost(
                scenario=name,
                tier=scenario.tier,
                accelerator=scenario.accelerator,
                devices=integer(resolved.layout.devices),
                minutes=scenario.limits.time_minutes,
                runs=budget.runs_per_week[scenario.cadence],
                machine=machines[scenario.accelerator],
            )
        )
    return tuple(found)


def budget_problems(found: tuple[Cost, ...], budget: Budget) -> list[str]:
    """Return where the scenarios take more than the budget gives, or more devices than a machine has."""
    problems = [
        f"e2e_{cost.scenario} needs {cost.devices} devices, and a machine has {cost.machine}"
        for cost in found
        if cost.devices > cost.machine
    ]
    for (tier, accelerator), hours in totals(found).items():
        given = budget.device_hours_per_week.get(tier, {}).get(accelerator, 0.0)
        if hours > given:
            most = max(
                (cost for cost in found if (cost.tier, cost.accelerator) == (tier, accelerator)),
                key=lambda cost: cost.device_hours,
            )
            problems.append(
                f"{tier} on {accelerator}: {hours:.0f} device-hours a week, {given:.0f} are given; most go to "
                f"e2e_{most.scenario} ({most.device_hours:.0f}) → a shorter limit, another cadence, or a larger budget"
            )
    return problems


def totals(found: tuple[Cost, ...]) -> dict[tuple[Tier, Accelerator], float]:
    """Return the device-hours of each tier on each kind of device."""
    sums: dict[tuple[Tier, Accelerator], float] = {}
    for cost in found:
        key = (cost.tier, cost.accelerator)
        sums[key] = sums.get(key, 0.0) + cost.device_hours
    return sums


def print_costs(found: tuple[Cost, ...], budget: Budget, console: Console) -> None:
    """Print what each scenario takes in a week at most, and each tier beside what it is given."""
    # held: by the whole machine, whether the scenario uses all of it or not
    session = Column("session", no_wrap=True)
    table = Table(session, "tier", "devices", "minutes", "runs", "hours", "held", title="device-hours a week")
    for cost in sorted(found, key=lambda cost: -cost.device_hours):
        numbers = (cost.minutes, cost.runs, cost.device_hours, cost.held_hours)
        devices = f"{cost.devices} {cost.accelerator}"
        table.add_row(f"e2e_{cost.scenario}", cost.tier, devices, *(f"{number:.0f}" for number in numbers))
    console.print(table)
    for (tier, accelerator), hours in totals(found).items():
        given = budget.device_hours_per_week.get(tier, {}).get(accelerator, 0.0)
        console.print(f"{tier} on {accelerator}: {hours:.0f} of {given:.0f} device-hours a week")
