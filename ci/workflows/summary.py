"""A run as GitHub's step summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ci.runs.record import Record, read

VARIABLE = "GITHUB_STEP_SUMMARY"


def summarise(runs: Path) -> str | None:
    """Append the newest run to the step summary, or return its text where there is none; None: nothing was recorded."""
    latest = runs / "latest"
    if not (latest / "run.json").is_file():
        return None
    text = markdown(read(latest))
    if target := os.environ.get(VARIABLE):
        with Path(target).open("a", encoding="utf-8") as summary:
            summary.write(text)
    return text


def markdown(record: Record) -> str:
    """Return what somebody wants to know who sees a red or a green job."""
    return "\n".join((*_lines(record), ""))


def _lines(record: Record) -> Iterator[str]:
    kind = "a rehearsal on the CPU" if record.rehearsal else f"{len(record.devices)} × {record.target}"
    yield f"### e2e_{record.scenario}: {record.status}"
    yield ""
    yield f"{kind}, engine {record.engine}, {record.steps} steps in {record.duration_s:.0f} s, verl {_verl(record)}"
    yield ""
    if record.failure_class is not None:
        yield f"**{record.failure_class}**: {_cell(record.message or 'no message')}"
        yield ""
    if record.hint:
        yield f"→ {_cell(record.hint)}"
        yield ""
    if record.checks:
        yield "| check | | expected | observed |"
        yield "| --- | --- | --- | --- |"
        for check in record.checks:
            passed = "passed" if check.passed else "**failed**"
            yield f"| {_cell(check.name)} | {passed} | {_cell(check.expected)} | {_cell(check.observed)} |"
        yield ""
    yield "```"
    yield record.reproduce.replace("```", "'''")
    yield "```"


def _verl(record: Record) -> str:
    known = (record.verl.version, record.verl.commit and record.verl.commit[:12])
    return " ".join(part for part in known if part) or "unknown"


def _cell(text: str) -> str:
    """Return text that ends neither a table's cell nor its row, and is no markup."""
    plain = " ".join(text.split())
    return "".join(f"\\{character}" if character in "|*_`<>[]\\#" else character for character in plain)
