"""What a run measured: its metrics by step, and its weight syncs by version."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ci.runs.events import Event, Metrics, Weights


class Part(BaseModel):
    """Base of the record's parts: frozen, strict about unknown fields, NaN and infinities as texts that JSON allows."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, ser_json_inf_nan="strings")


class WeightSync(Part):
    """One version of the weights, and what each side held of it."""

    version: int
    trainer_digests: tuple[str, ...]
    """Different digests the training side sent, sorted; more than one means that its ranks disagree."""
    rollout_digests: tuple[str, ...]
    """Different digests the rollout side received, sorted; empty where that side is out of sight."""
    rollout_reports: int
    """How many rollout processes reported."""
    equal: bool
    """Both sides reported, and every digest is the same."""


class MetricSummary(Part):
    """One metric over all the steps that had it."""

    first: float
    last: float
    min: float | None
    """Smallest finite value; None when no value is finite."""
    max: float | None
    """Largest finite value; None when no value is finite."""
    samples: int
    not_finite: int
    """How many samples were NaN or infinite."""


class Measurements:
    """Collects the events of a run."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, float]] = {}
        self._weights: dict[int, list[Weights]] = {}

    def add(self, event: Event) -> None:
        """Take one event; those that measure nothing are passed over."""
        match event:
            case Metrics(step=step, metrics=metrics):
                # verl may log one step in several calls; together they are its metrics.
                self._steps.setdefault(step, {}).update(metrics)
            case Weights(version=version):
                self._weights.setdefault(version, []).append(event)
            case _:
                pass

    @property
    def steps(self) -> dict[int, dict[str, float]]:
        """Return the training steps in order; step 0 is the validation before training."""
        return {step: self._steps[step] for step in sorted(self._steps) if step > 0}

    @property
    def weight_syncs(self) -> tuple[WeightSync, ...]:
        """Return the weight syncs by version."""
        return tuple(_weight_sync(version, self._weights[version]) for version in sorted(self._weights))

    def summary(self) -> dict[str, MetricSummary]:
        """Return every metric of the training steps, by name."""
        series: dict[str, list[float]] = {}
        for metrics in self.steps.values():
            for name, value in metrics.items():
                series.setdefault(name, []).append(value)
        return {name: _summary(values) for name, values in sorted(series.items())}

    def write(self, path: Path) -> None:
        """Write one line a step, step 0 included."""
        with path.open("w", encoding="utf-8") as file:
            for step in sorted(self._steps):
                metrics = {name: _json_number(value) for name, value in self._steps[step].items()}
                file.write(json.dumps({"step": step, "metrics": metrics}, allow_nan=False) + "\n")


def _weight_sync(version: int, events: Iterable[Weights]) -> WeightSync:
    events = tuple(events)
    trainer = {event.digest for event in events if event.side == "trainer"}
    rollout = [event.digest for event in events if event.side == "rollout"]
    return WeightSync(
        version=version,
        trainer_digests=tuple(sorted(trainer)),
        rollout_digests=tuple(sorted(set(rollout))),
        rollout_reports=len(rollout),
        equal=bool(trainer) and bool(rollout) and len(trainer | set(rollout)) == 1,
    )


def _summary(values: list[float]) -> MetricSummary:
    finite = [value for value in values if math.isfinite(value)]
    return MetricSummary(
        first=values[0],
        last=values[-1],
        min=min(finite, default=None),
        max=max(finite, default=None),
        samples=len(values),
        not_finite=len(values) - len(finite),
    )


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
