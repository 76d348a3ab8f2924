"""What a job ends with: nothing of its runs stays behind."""

from __future__ import annotations

import functools

from ci.engines import processes


def reap() -> tuple[str, ...]:
    """End the processes of runs whose owner is dead, and return a line for each; a living owner's stay."""
    lines: list[str] = []
    for run, found in processes.of_dead_owners().items():
        left = processes.end(functools.partial(processes.of_run, run, also=found))
        lines.append(f"ended {len(found) - len(left)} processes that run {run} had left behind")
        lines += [f"could not be ended: {processes.describe(process)}" for process in left]
    return tuple(lines)
