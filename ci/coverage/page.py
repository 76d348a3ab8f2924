"""The ledger as one HTML page: capabilities against scenarios, and where the retired jobs went."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from html import escape

from ci.coverage.ledger import Ledger
from ci.coverage.migration import Answer, answers, gaps
from ci.scenarios.catalogue import Catalogue

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;margin:1rem 0 2rem}
th,td{border:1px solid #d0d4da;padding:.25rem .5rem;text-align:left;vertical-align:top}
thead th{background:#f2f4f7;position:sticky;top:0}
tbody.kind th{background:#f8f9fb;font-weight:600}
td.yes{background:#dcf3e1;text-align:center}td.waived{background:#fff3cd}td.open,td.expired{background:#f9d7d7}
.narrow{writing-mode:vertical-rl;white-space:nowrap}small{color:#5a626d}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e4e6ea}th,td{border-color:#3a4048}
thead th,tbody.kind th{background:#20252b}td.yes{background:#1d4428}td.waived{background:#4d4216}
td.open,td.expired{background:#5a2323}small{color:#9aa3ad}}
"""


def page(catalogue: Catalogue, ledger: Ledger, *, today: date) -> str:
    """Return the page, complete in itself."""
    parts = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Coverage of verl's end-to-end scenarios</title>",
        f"<style>{_STYLE}</style><h1>Coverage of verl's end-to-end scenarios</h1>",
        f"<p>As of {today}. {len(catalogue)} scenarios, {len(ledger.capabilities)} capabilities.</p>",
        _matrix(catalogue, ledger, today),
        "<h2>Where the retired jobs went</h2>",
        _migration(answers(catalogue, ledger, today=today), ledger),
        "<h2>Never covered by any job</h2>",
        _list(
            f"{gap.name}: {', '.join(f'e2e_{name}' for name in gap.scenarios) or 'still by none'}"
            for gap in gaps(catalogue, ledger)
        ),
        "</html>\n",
    )
    return "\n".join(parts)


def _matrix(catalogue: Catalogue, ledger: Ledger, today: date) -> str:
    heads = "".join(
        f"<th class=narrow>e2e_{escape(name)}"
        f"<br><small>{scenario.accelerator}, {scenario.tier}, {scenario.cadence}</small>"
        for name, scenario in catalogue.items()
    )
    rows: list[str] = []
    kind = ""
    for capability, entry in ledger.capabilities.items():
        if capability.partition("/")[0] != kind:
            kind = capability.partition("/")[0]
            rows.append(f"<tbody class=kind><tr><th colspan={len(catalogue) + 2}>{escape(kind)}<tbody>")
        cells = "".join(
            "<td class=yes>●" if capability in scenario.covers else "<td>" for scenario in catalogue.values()
        )
        waivers = [waiver for waiver in ledger.waivers.values() if capability in waiver.capabilities]
        state = "" if not waivers else "waived" if all(waiver.until >= today for waiver in waivers) else "expired"
        remark = "; ".join(
            f"{waiver.reason} ({waiver.accelerator or 'anywhere'}, until {waiver.until})" for waiver in waivers
        )
        title = f"<th>{escape(capability)}<br><small>{escape(entry.summary)}</small>"
        rows.append(f"<tr>{title}{cells}<td class='{state}'>{escape(remark)}")
    return f"<table><thead><tr><th>capability{heads}<th>waiver</thead>{''.join(rows)}</table>"


def _migration(found: tuple[Answer, ...], ledger: Ledger) -> str:
    rows: list[str] = []
    for name, job in ledger.retired.jobs.items():
        own = [answer for answer in found if answer.job == name]
        remark = "<br>".join(f"<small>{escape(text)}</small>" for text in (job.devices, job.note) if text)
        for index, answer in enumerate(own):
            title = f"<th rowspan={len(own)}>{escape(name)}<br>{remark}" if index == 0 else ""
            details = "<br>".join(
                f"<small>{escape(text)}</small>" for text in (answer.because, answer.by_hand or "") if text
            )
            state = "yes" if answer.state == "covered" else answer.state
            rows.append(
                f"<tr>{title}<td>{escape(answer.part[0])}<td class={state}>{answer.state}"
                f"<td>{escape(str(answer).partition(': ')[2])}<br>{details}"
            )
    head = "<thead><tr><th>retired job<th>what it covered<th>now<th>where</thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</table>"


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}' for item in items)}</ul>"
