"""Whether a run did what its scenario asks: exit code and checks make the status."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from typing import Literal, assert_never

from ci.errors import FailureClass
from ci.runs.metrics import Measurements, Part
from ci.scenarios.model import (
    CheckDeclaration,
    Expression,
    FiniteCheck,
    IntegerExpression,
    MetricCheck,
    StepsCheck,
    WeightSyncsCheck,
)

Status = Literal["passed", "failed", "error", "cancelled", "preflight_only"]
_SHOWN = 5


class CheckResult(Part):
    """One check of a run."""

    name: str
    expected: str
    observed: str
    passed: bool


def check(declarations: Mapping[str, CheckDeclaration], measurements: Measurements) -> tuple[CheckResult, ...]:
    """Return the result of every check, in the order declared."""
    return tuple(_check(name, declaration, measurements) for name, declaration in declarations.items())


def status(failure_class: FailureClass | None, *, started: bool, preflight_only: bool = False) -> Status:
    """Return the status that goes with a failure class.

    ``started`` says whether a command of the run was started: what keeps a run from starting is an error of its
    surroundings, what happens afterwards is a failure of the run.
    """
    match failure_class:
        case None:
            return "preflight_only" if preflight_only else "passed"
        case "cancelled":
            return "cancelled"
        case "suite":
            return "error"
        case _:
            return "failed" if started else "error"


def _check(name: str, declaration: CheckDeclaration, measurements: Measurements) -> CheckResult:
    match declaration:
        case StepsCheck():
            return _steps(name, declaration, measurements)
        case WeightSyncsCheck():
            return _weight_syncs(name, declaration, measurements)
        case FiniteCheck():
            return _finite(name, declaration, measurements)
        case MetricCheck():
            return _metric(name, declaration, measurements)
        case _:
            assert_never(declaration)


def _steps(name: str, declaration: StepsCheck, measurements: Measurements) -> CheckResult:
    wanted = _count(declaration.at_least)
    seen = measurements.steps
    missing = [step for step in range(1, wanted + 1) if step not in seen]
    observed = f"{len(seen)} steps, the last is {max(seen)}" if seen else "no step"
    if seen and missing:
        observed += f"; missing: {_listed(missing)}"
    return CheckResult(
        name=name,
        expected=f"metrics of every step from 1 to {wanted}",
        observed=observed,
        passed=bool(seen) and not missing,
    )


def _weight_syncs(name: str, declaration: WeightSyncsCheck, measurements: Measurements) -> CheckResult:
    wanted = _count(declaration.at_least)
    syncs = measurements.weight_syncs
    both = declaration.sides == "both"
    wrong = []
    for sync in syncs:
        if not sync.trainer_digests:
            wrong.append(f"version {sync.version}: the training side reported none")
        elif both and not sync.rollout_digests:
            wrong.append(f"version {sync.version}: the rollout side reported none")
        elif len({*sync.trainer_digests, *sync.rollout_digests}) > 1:
            sent, received = "/".join(sync.trainer_digests), "/".join(sync.rollout_digests) or "none"
            wrong.append(f"version {sync.version}: trainer {sent}, rollout {received}")
    good = len(syncs) - len(wrong)
    sides = "equal digests on both sides" if both else "one digest on the training side"
    observed = f"{good} of {len(syncs)}" if syncs else "no weight sync"
    return CheckResult(
        name=name,
        expected=f"at least {wanted} weight syncs, all with {sides}",
        observed="; ".join((observed, *wrong[:_SHOWN])),
        passed=good >= wanted and good > 0 and not wrong,
    )


def _finite(name: str, declaration: FiniteCheck, measurements: Measurements) -> CheckResult:
    count = 0
    wrong = []
    unmatched = set(declaration.metrics)
    for step, metrics in measurements.steps.items():
        for metric, value in metrics.items():
            if matching := {pattern for pattern in declaration.metrics if fnmatch.fnmatchcase(metric, pattern)}:
                unmatched -= matching
                count += 1
                if not math.isfinite(value):
                    wrong.append(f"{metric} is {value} in step {step}")
    observed = [f"{count} samples"]
    observed += [f"no metric matches {pattern}" for pattern in declaration.metrics if pattern in unmatched]
    return CheckResult(
        name=name,
        expected=f"no NaN and no infinity in {', '.join(declaration.metrics)}",
        observed="; ".join((*observed, *_shown(wrong))),
        passed=count > 0 and not wrong and not unmatched,
    )


def _metric(name: str, declaration: MetricCheck, measurements: Measurements) -> CheckResult:
    bounds = {
        sign: _number(bound)
        for sign, bound in (("≥", declaration.at_least), (">", declaration.above), ("≤", declaration.at_most))
        if bound is not None
    }
    samples: list[float] = []
    wrong = []
    for step, metrics in measurements.steps.items():
        value = metrics.get(declaration.metric)
        if value is None:
            wrong.append(f"step {step} has none")
            continue
        samples.append(value)
        # Finite first: a comparison with NaN is False, and so is its opposite.
        if not math.isfinite(value):
            wrong.append(f"{value} in step {step}")
        elif not all(_holds(value, sign, bound) for sign, bound in bounds.items()):
            wrong.append(f"{value:g} in step {step}")
    observed = ["no sample"] if not samples else [_range(samples)]
    return CheckResult(
        name=name,
        expected=f"{declaration.metric} {_written(bounds)} in every step: {declaration.because}",
        observed="; ".join((*observed, *_shown(wrong))),
        passed=bool(samples) and not wrong,
    )


def _written(bounds: Mapping[str, float]) -> str:
    return " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items())


def _holds(value: float, sign: str, bound: float) -> bool:
    match sign:
        case "≥":
            return value >= bound
        case ">":
            return value > bound
        case _:
            return value <= bound


def _range(samples: list[float]) -> str:
    finite = [value for value in samples if math.isfinite(value)]
    if not finite:
        return f"{len(samples)} samples, none finite"
    return f"{len(samples)} samples from {min(finite):g} to {max(finite):g}"


def _shown(wrong: list[str]) -> list[str]:
    return wrong if len(wrong) <= _SHOWN else [*wrong[:_SHOWN], f"and {len(wrong) - _SHOWN} more"]


def _listed(numbers: list[int]) -> str:
    return ", ".join(_shown([str(number) for number in numbers]))


def _number(bound: Expression) -> float:
    """Return a bound as a number; a plan holds numbers, also as texts, where the scenario held expressions."""
    return float(bound)


def _count(bound: IntegerExpression) -> int:
    return int(bound)
