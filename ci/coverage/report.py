"""The ledger on the terminal."""

from __future__ import annotations

from collections import Counter
from datetime import date

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.coverage.claims import covered
from ci.coverage.ledger import Ledger
from ci.coverage.migration import Answer, State, answers, gaps
from ci.scenarios.catalogue import Catalogue

_COLOURS: dict[State, str] = {"covered": "green", "waived": "yellow", "expired": "red", "open": "red"}


def print_coverage(catalogue: Catalogue, ledger: Ledger, console: Console) -> None:
    """Print each capability with the scenarios that cover it, by kind of device."""
    now = covered(catalogue)
    table = Table("capability", "cuda", "npu", "waived until", title=f"{len(ledger.capabilities)} capabilities")
    for capability in ledger.capabilities:
        until = [str(waiver.until) for waiver in ledger.waivers.values() if capability in waiver.capabilities]
        columns = (", ".join(now.get((capability, accelerator), ())) for accelerator in ("cuda", "npu"))
        table.add_row(capability, *columns, ", ".join(until))
    console.print(table)


def print_migration(catalogue: Catalogue, ledger: Ledger, console: Console, *, today: date) -> None:
    """Print where each part of each retired job lives now, what is waived, and what no job ever covered."""
    found = answers(catalogue, ledger, today=today)
    for name, job in ledger.retired.jobs.items():
        _line(console, Text(f"\n{name}" + (f"  ({job.devices})" if job.devices else ""), style="bold"))
        if job.note:
            _line(console, Text(f"  note: {job.note}"))
        for answer in (answer for answer in found if answer.job == name):
            _line(console, Text(f"  {answer.state:8}", style=_COLOURS[answer.state]) + Text(str(answer), style="none"))
    _print_open(found, console)
    _line(console, Text("\nNever covered by any job", style="bold"))
    for gap in gaps(catalogue, ledger):
        _line(console, Text(f"  {gap.name}: {', '.join(f'e2e_{name}' for name in gap.scenarios) or 'still by none'}"))
    count = Counter(answer.state for answer in found)
    totals = ", ".join(f"{count[state]} {state}" for state in _COLOURS)
    _line(console, Text(f"\n{len(ledger.retired.jobs)} retired jobs and scripts, {len(found)} parts: {totals}"))


def _print_open(found: tuple[Answer, ...], console: Console) -> None:
    waivers = {answer.waiver: answer for answer in found if answer.waiver}
    _line(console, Text("\nStill open, with the waiver that answers it", style="bold"))
    for name, answer in waivers.items():
        parts = dict.fromkeys(f"{a.part[0]} on {a.part[1]}" for a in found if a.waiver == name)
        _line(console, Text(f"  {', '.join(parts)}", style=_COLOURS[answer.state]))
        _line(console, Text(f"    {answer.because} ({answer.owner}, until {answer.until})"))
        for line in dict.fromkeys(a.by_hand for a in found if a.waiver == name and a.by_hand):
            _line(console, Text(f"    by hand: {line}"))


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)  # a line to paste must stay one line
