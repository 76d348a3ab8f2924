"""Whether every scenario is started by one job of the workflows, and can fail there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ci.scenarios.catalogue import Catalogue
from ci.scenarios.model import CheckDeclaration, FiniteCheck, MetricCheck, StepsCheck, WeightSyncsCheck
from ci.scenarios.resolution import integer, resolve

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
_COMMAND = re.compile(r"\bnox -s e2e_([a-z0-9_]+)\b")


def reach_problems(catalogue: Catalogue, workflows: Path = WORKFLOWS) -> list[str]:
    """Return the scenarios that no workflow starts, or several do, and those that cannot fail."""
    started: dict[str, list[str]] = {}
    for path in sorted(workflows.glob("*.y*ml")):
        for name in _COMMAND.findall(path.read_text(encoding="utf-8")):
            started.setdefault(name, []).append(path.name)
    return [*_not_started_once(catalogue, started), *_without_a_check(catalogue)]


def _not_started_once(catalogue: Catalogue, started: dict[str, list[str]]) -> Iterator[str]:
    for name in catalogue:
        match started.get(name, []):
            case []:
                yield f"e2e_{name}: no workflow starts it → `inv workflows.generate`"
            case [_]:
                pass
            case files:
                # two jobs could put it into two tiers
                yield f"e2e_{name}: started {len(files)} times, in {', '.join(dict.fromkeys(files))}; once is right"


def _without_a_check(catalogue: Catalogue) -> Iterator[str]:
    for name, scenario in catalogue.items():
        resolved = resolve(name, scenario, environment={}, rehearsal=False, cache="").scenario
        if not any(can_fail(check) for check in resolved.checks.values()):
            yield f"e2e_{name}: no check of it can fail: {', '.join(resolved.checks)}"


def can_fail(check: CheckDeclaration) -> bool:
    """Tell whether a run exists that does not pass the check."""
    match check:
        case StepsCheck(at_least=count) | WeightSyncsCheck(at_least=count):
            return integer(count) > 0
        case FiniteCheck() | MetricCheck():
            return True  # a run without the metric fails it
