"""Carries out a plan in a process of its own, as nox does: `python -m tests.engine.driver PLAN_JSON RUNS`."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ci.engines.docker import DockerEngine
from ci.engines.engine import Engine
from ci.engines.host import HostEngine
from ci.errors import error_for
from ci.plan import Plan
from ci.runs.execute import execute
from ci.runs.preparation import Prepared, Stage
from ci.runs.record import VerlRecord
from ci.runs.signals import cancel_on_signals


@contextmanager
def prepare(_stage: Stage) -> Iterator[Prepared]:
    yield Prepared(configuration="trainer: {}\n", verl=VerlRecord(version="0.9.1", commit=None))


def main(plan_file: str, runs: str) -> int:
    plan = Plan.model_validate_json(Path(plan_file).read_bytes())
    engine: Engine = HostEngine() if plan.engine == "host" else DockerEngine()
    with cancel_on_signals() as cancellation:
        record = execute(plan, runs=Path(runs), engine=engine, prepare=prepare, cancellation=cancellation)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    Path(runs, "peak_mib").write_text(str(peak_mib), encoding="ascii")
    return 0 if record.failure_class is None else error_for(record.failure_class).exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
