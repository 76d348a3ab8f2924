"""Tasks on the catalogue of scenarios."""

from __future__ import annotations

from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from rich.console import Console
from rich.table import Table

from ci.errors import collected
from ci.invocation import suite_task
from ci.scenarios.budget.budget import budget_problems, costs, load_budget, print_costs
from ci.scenarios.catalogue import SCHEMA, load, schema_text
from ci.workflows.changes import tracked
from ci.workflows.settings import load_settings
from ci.workflows.triggers import dead_triggers


@suite_task
def show(_: Context) -> None:
    """Show every scenario with its device, tier and limit."""
    table = Table("session", "device", "tier", "cadence", "minutes", "summary")
    for name, it in load().items():
        table.add_row(f"e2e_{name}", it.accelerator, it.tier, it.cadence, f"{it.limits.time_minutes:g}", it.summary)
    Console().print(table)


@suite_task
def schema(_: Context) -> None:
    """Write the JSON schema that editors complete files by."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")


@suite_task
def check(_: Context, verl: str = "") -> None:
    """Validate every scenario; --verl PATH: its triggers too.

    A trigger that matches no file of that checkout of verl fails.
    """
    problems = list(dead_triggers(load(), tracked(Path(verl)))) if verl else []
    if problems:
        raise collected(problems, what=f"triggers against {verl}")
    print(f"{len(load())} scenarios are valid")


@suite_task
def budget(_: Context) -> None:
    """Hold the device-hours of a week against the budget."""
    allowed = load_budget()
    machines = {accelerator: machine.devices for accelerator, machine in load_settings().machines.items()}
    found = costs(load(), allowed, machines)
    print_costs(found, allowed, Console())
    if problems := budget_problems(found, allowed):
        raise collected(problems, what="the scenarios take more than they are given")


namespace = Collection("scenarios", schema, check, budget)
namespace.add_task(show, name="list")
