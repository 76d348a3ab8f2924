"""What the terminal shows of a run: a line when it starts, a block when it ends."""

from __future__ import annotations

from pathlib import Path

from ci.dry_run import headline
from ci.plan import Plan
from ci.runs.progress import elapsed
from ci.runs.record import Record

_CONSOLE_LINES = 20


def opening(plan: Plan, directory: Path) -> str:
    """Return the first lines of a run: nobody should take a rehearsal for a run on a device."""
    return "\n".join((headline(plan), *(f"   note: {note}" for note in plan.notes), f"   {directory}"))


def closing(record: Record, directory: Path, *, tail: tuple[str, ...]) -> str:
    """Return the block that ends a run: what failed comes with the last lines of the log and the line to paste."""
    kind = "rehearsal" if record.rehearsal else record.target
    title = f"{record.scenario} {record.status} after {elapsed(record.duration_s)} ({kind}, engine {record.engine}"
    title += ")" if record.failure_class is None else f"; failure class: {record.failure_class})"
    lines = ["", f"── {title}"]
    if record.status == "passed":
        equal = sum(sync.equal for sync in record.weight_syncs)
        syncs = f"{equal} weight syncs with equal digests"
        lines.append(f"   {record.steps} steps, {syncs}, {len(record.checks)} checks passed")
    else:
        if tail:
            lines.append("   last lines of the log:")
            lines += [f"   │ {line}" for line in tail[-_CONSOLE_LINES:]]
        lines += [
            f"   check {check.name} failed\n     expected: {check.expected}\n     observed: {check.observed}"
            for check in record.checks
            if not check.passed
        ]
        if record.message:
            lines.append(f"   {record.message}")
        if record.hint:
            lines.append(f"   → {record.hint}")
        lines.append(f"   reproduce: {record.reproduce}")
    lines += [f"   note: {note}" for note in record.notes]
    lines.append(f"   {directory}")
    return "\n".join(lines)
