"""What preflight found, as lines of one table: a grid on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.errors import FailureClass

Area = Literal["verl", "configuration", "values", "facts", "machine"]
State = Literal["ok", "warning", "failed", "skipped"]
GRID_WIDTH = 100
"""Columns of a terminal from which on the table is a grid."""
_STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that was looked at."""

    scenario: str
    area: Area
    name: str
    state: State
    detail: str
    hint: str
    """What to do about it; for a line that is well, where it is decided."""
    failure_class: FailureClass = "config"

    def plain(self) -> dict[str, str]:
        """Return a form for JSON."""
        return asdict(self)


def print_report(lines: Sequence[Line], console: Console) -> None:
    """Print all lines and how many there are of each state.

    With several scenarios, what is well about the machine shares a line for each of them.
    """
    shown = lines if len({line.scenario for line in lines}) == 1 else _together(lines)
    if console.is_terminal and console.width >= GRID_WIDTH:
        console.print(_grid(shown))
    else:
        for line in shown:
            text = _stacked(line) if console.is_terminal else _plain(line)
            console.print(text, soft_wrap=not console.is_terminal, highlight=False)
    console.print(summary(lines), soft_wrap=True, highlight=False)


def summary(lines: Sequence[Line]) -> str:
    """Count the lines by state."""
    counts = Counter(line.state for line in lines)
    scenarios = len({line.scenario for line in lines})
    parts = [f"{counts[state]} {state}" for state in _STYLES if counts[state]]
    return f"preflight: {scenarios} {'scenario' if scenarios == 1 else 'scenarios'}, {', '.join(parts)}"


def _together(lines: Sequence[Line]) -> list[Line]:
    together: list[Line] = []
    for scenario, group in groupby(lines, key=lambda line: line.scenario):
        members = list(group)
        well = [line for line in members if line.area == "machine" and line.state == "ok"]
        together += [line for line in members if line not in well]
        if well:
            names = ", ".join(line.name for line in well)
            together.append(
                replace(well[0], name="well", detail=names, hint=f"nox -s preflight -- {scenario} has more")
            )
    return together


def _grid(lines: Sequence[Line]) -> Table:
    table = Table(show_edge=False, pad_edge=False, show_lines=False)
    for title in ("scenario", "area", "state"):
        table.add_column(title, no_wrap=True)
    table.add_column("what", overflow="fold", ratio=3)
    table.add_column("hint", overflow="fold", ratio=2)
    previous = ""
    for line in lines:
        table.add_row(
            line.scenario if line.scenario != previous else "",
            line.area,
            Text(line.state, style=_STYLES[line.state]),
            Text.assemble((f"{line.name}: ", "bold"), line.detail),
            Text(line.hint, style="dim"),
        )
        previous = line.scenario
    return table


def _stacked(line: Line) -> Text:
    """Put what a grid has side by side on rows of its own, for a terminal that is too narrow for columns."""
    return Text.assemble(
        (f"{line.state} ", _STYLES[line.state]),
        (f"{line.scenario} {line.area} {line.name}\n", "bold"),
        f"{line.detail}\n",
        (f"→ {line.hint}", "dim"),
    )


def _plain(line: Line) -> Text:
    return Text(f"{line.state:<8}{line.scenario}  {line.area}  {line.name}: {line.detail}  → {line.hint}")
