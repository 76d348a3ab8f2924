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
    if console.is_terminal:
        console.print(_grid(shown, narrow=console.width < 100))  # noqa: PLR2004 (columns that the grid needs)
    else:
        for line in shown:
            console.print(_plain(line), soft_wrap=True, highlight=False)
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


def _grid(lines: Sequence[Line], *, narrow: bool) -> Table:
    table = Table(show_edge=False, pad_edge=False, show_lines=False)
    for title in ("scenario", "area", "state"):
        table.add_column(title, no_wrap=True)
    table.add_column("what", overflow="fold")
    if not narrow:
        table.add_column("hint", overflow="fold", style="dim")
    previous = ""
    for line in lines:
        what = Text.assemble((f"{line.name}: ", "bold"), line.detail)
        if narrow:
            what.append(f"\n→ {line.hint}", style="dim")
        cells: list[str | Text] = [
            line.scenario if line.scenario != previous else "",
            line.area,
            Text(line.state, style=_STYLES[line.state]),
            what,
        ]
        table.add_row(*cells, *([] if narrow else [Text(line.hint)]))
        previous = line.scenario
    return table


def _plain(line: Line) -> Text:
    return Text(f"{line.state:<8}{line.scenario}  {line.area}  {line.name}: {line.detail}  → {line.hint}")
