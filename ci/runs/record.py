"""The record of a run, ``runs/ID/run.json``: what reports, history and people read afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ci.errors import FailureClass
from ci.plan import EngineName
from ci.runs.metrics import MetricSummary, Part, WeightSync
from ci.runs.verdict import CheckResult, Status
from ci.scenarios.model import Target

SCHEMA_VERSION: Literal[1] = 1


class ImageRecord(Part):
    """The image a run really started in."""

    name: str
    """Its name in `containers/images.yaml`."""
    reference: str
    """What the engine was asked for."""
    digest: str | None
    """Digest of what it got: the registry's for a pinned image, the image's own id for one that was built here."""
    verified: bool
    """Whether `containers/images.lock` says that it was verified."""


class VerlRecord(Part):
    """The verl that was tested."""

    version: str | None
    """Such as ``0.9.1``; None when it is only known inside an image."""
    commit: str | None
    """Of the checkout; None for a release."""


class Record(Part):
    """One run, from its plan to its verdict."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """Grows when a field changes its meaning or goes away."""
    id: str
    """Sortable by start: UTC time, scenario, a few random characters. Also the folder's name."""
    scenario: str
    target: Target
    engine: EngineName
    rehearsal: bool
    """True when a tiny model was trained on the CPU: never the same as a run on a device."""
    image: ImageRecord | None
    """None on the host engine."""
    verl: VerlRecord
    devices: tuple[int, ...]
    """Ids of the accelerators the run had; empty in a rehearsal."""
    started: str
    """ISO 8601, UTC."""
    duration_s: float
    """From the start of the run to its verdict, data steps included."""
    status: Status
    """``failed``: the run's commands did not do what was asked. ``error``: they could not be started, or the suite is
    at fault."""
    failure_class: FailureClass | None
    """Whose fault it is; None when the run passed, or was a preflight only."""
    exit_code: int | None
    """Of the trainer, or of the data step that failed; 128 + N for signal N; None when it never ended by itself."""
    message: str | None
    """What failed, in a line."""
    hint: str | None
    """What to do about it."""
    notes: tuple[str, ...]
    """What else the reader should know: orphans reaped, processes left over, events lost."""
    steps: int
    """Training steps that reported metrics."""
    weight_syncs: tuple[WeightSync, ...]
    metrics: dict[str, MetricSummary]
    """Every metric by name; each step's values are in `metrics.jsonl`."""
    checks: tuple[CheckResult, ...]
    """In the scenario's order; empty when the trainer did not end by itself."""
    reproduce: str
    """The line that makes the same run again, to be pasted."""


def write(record: Record, directory: Path) -> None:
    """Write ``run.json`` at once as a whole: a reader finds all of it or nothing."""
    path = directory / "run.json"
    temporary = path.with_suffix(".json.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(record.model_dump_json(indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(directory: Path) -> Record:
    """Return the record in a run's folder."""
    return Record.model_validate_json((directory / "run.json").read_bytes())
