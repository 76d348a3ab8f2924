"""All checks of plans before anything is started: verl's configuration first, then this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.devices.probe import probe
from ci.errors import SuiteError, error_for
from ci.plan import Plan, Verl
from ci.preflight.configuration import Composer, Composition, as_config
from ci.preflight.effective import Effective, VerlCode, fact_problems
from ci.preflight.importable import check_all_importable
from ci.preflight.machine import machine_lines
from ci.preflight.problem import Problem
from ci.preflight.registry import Registry, read_registry
from ci.preflight.report import Area, Line, State
from ci.preflight.rules import rule_problems
from ci.preflight.values import CHOICES, value_problems
from ci.verl.source import Source, find_source


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What was found about each plan."""

    lines: tuple[Line, ...]
    configurations: Mapping[str, str]
    """The composed configuration by scenario, as YAML; none where Hydra refuses it."""

    @property
    def failed(self) -> bool:
        """Tell whether anything stands in the way of a run."""
        return any(line.state == "failed" for line in self.lines)

    def as_error(self) -> SuiteError | None:
        """Return one error with every failed line; the first one says which class it is of."""
        failed = [line for line in self.lines if line.state == "failed"]
        if not failed:
            return None
        count = "1 problem" if len(failed) == 1 else f"{len(failed)} problems"
        lines = (f"  - {line.scenario}: {line.name}: {line.detail}\n    → {line.hint}" for line in failed)
        return error_for(failed[0].failure_class)("\n".join((f"preflight: {count}", *lines)))

    def json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(
            {
                "failed": self.failed,
                "lines": [line.plain() for line in self.lines],
                "configurations": dict(self.configurations),
            },
            indent=2,
        )


@dataclass(kw_only=True)
class _Examination:
    """What is found about one plan's configuration, area by area."""

    plan: Plan
    source: Source
    composition: Composition
    effective: Effective = field(default_factory=lambda: Effective(facts={}))

    def lines(self, registry: Registry, own: Iterable[Problem]) -> list[Line]:
        """Return a line for each problem, or one for an area that has none."""
        plan, facts = self.plan, self.effective.facts
        overrides = len(plan.overrides) + len(plan.arguments)
        composed = f"composed from {self.source} with {overrides} overrides"
        lines = self._area("configuration", self.composition.problems, composed, f"ci/scenarios/{plan.scenario}.yaml")
        if self.composition.configuration is None:
            hint = "put the configuration right first"
            return [*lines, self._line("values", "values", "skipped", "not looked at", hint)]
        configuration = as_config(self.composition.configuration)
        device = plan.environment.get("VERL_ENGINE_DEVICE") or plan.target
        values = value_problems(configuration, registry, self.source, device=device)
        lines += self._area(
            "values", values, f"{len(CHOICES)} names are among those that {self.source} registers", "verl's registries"
        )
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
        problems = (*fact_problems(plan.facts, self.effective), *rule_problems(configuration, facts), *own)
        return [*lines, *self._area("facts", problems, told, f"facts: in ci/scenarios/{plan.scenario}.yaml")]

    def _area(self, area: Area, problems: Sequence[Problem], well: str, where: str) -> list[Line]:
        found = [
            self._line(area, problem.name, problem.state, problem.message, problem.hint or where)
            for problem in problems
        ]
        if any(line.state == "failed" for line in found):
            return found
        return [self._line(area, area, "ok", well, where), *found]

    def _line(self, area: Area, name: str, state: State, detail: str, hint: str) -> Line:
        return Line(scenario=self.plan.scenario, area=area, name=name, state=state, detail=detail, hint=hint)


def preflight(
    plans: Sequence[Plan],
    *,
    machine: bool = True,
    required: bool = False,
    importable: bool = True,
    runs: Path | None = None,
) -> Preflight:
    """Examine plans; nothing is started, and nothing but the cache is written.

    Args:
        plans: The plans, of any verl each.
        machine: Whether to look at this machine as well.
        required: Whether a machine without the devices of a plan fails it, as it must before a run.
        importable: Whether verl's own checks run where an interpreter that has verl is there.
        runs: Folder that the runs will be written to, for its disk.
    """
    sources: dict[Verl, Source | SuiteError] = {}
    examinations: dict[str, _Examination] = {}
    lines: dict[str, list[Line]] = {plan.scenario: [] for plan in plans}
    for verl in dict.fromkeys(plan.verl for plan in plans):
        sources[verl] = _source(verl)
    for verl, source in sources.items():
        members = [plan for plan in plans if plan.verl == verl]
        if isinstance(source, SuiteError):
            for plan in members:
                lines[plan.scenario].append(_no_source(plan, source))
            continue
        composer = Composer(source=source)
        with VerlCode(source=source) as code:
            for plan in members:
                composition = composer.compose((*plan.overrides, *plan.arguments))
                examinations[plan.scenario] = _Examination(plan=plan, source=source, composition=composition)
                if composition.configuration is not None:
                    code.ask(plan.scenario, composition)
            for scenario, effective in code.collect().items():
                examinations[scenario].effective = effective
    own = _own_checks(list(examinations.values())) if importable else {}
    registries: dict[tuple[str, tuple[Path, ...]], Registry] = {}
    for scenario, examination in examinations.items():
        plugins = plugin_files(examination.plan, examination.composition)
        key = (examination.source.fingerprint, plugins)
        if key not in registries:
            registries[key] = read_registry(examination.source, plugins)
        lines[scenario] += examination.lines(registries[key], own.get(scenario, ()))
    if machine:
        devices = probe()
        for plan in plans:
            lines[plan.scenario] += machine_lines(plan, devices, required=required, runs=runs)
    return Preflight(
        lines=tuple(line for plan in plans for line in lines[plan.scenario]),
        configurations={
            scenario: examination.composition.text
            for scenario, examination in examinations.items()
            if examination.composition.configuration is not None
        },
    )


def plugin_files(plan: Plan, composition: Composition) -> tuple[Path, ...]:
    """Return the sources of the plug-ins that the run imports: files, or folders of packages."""
    backend = composition.given.get("actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module")
    modules = [*plan.environment.get("VERL_USE_EXTERNAL_MODULES", "").split(","), str(backend or "")]
    folders = [Path(folder) for folder in plan.environment.get("PYTHONPATH", "").split(":") if folder]
    found = []
    for top in dict.fromkeys(module.strip().partition(".")[0] for module in modules if module.strip()):
        places = (place for folder in folders for place in (folder / top, folder / f"{top}.py"))
        found += [place for place in places if place.exists()][:1]
    return tuple(found)


def _source(verl: Verl) -> Source | SuiteError:
    try:
        return find_source(verl)
    except SuiteError as error:
        return error


def _no_source(plan: Plan, error: SuiteError) -> Line:
    return Line(
        scenario=plan.scenario,
        area="verl",
        name=f"verl {plan.verl.name}",
        state="failed",
        detail=error.message,
        hint=error.hint or "--verl names another: a release or a checkout",
        failure_class=error.failure_class,
    )


def _own_checks(examinations: Sequence[_Examination]) -> dict[str, tuple[Problem, ...]]:
    """Run verl's own checks where an interpreter has verl; one process for the plans that share one."""
    groups: dict[tuple[Path, str, str], list[_Examination]] = {}
    for examination in examinations:
        python = _interpreter(examination.plan)
        if python is not None and examination.composition.configuration is not None:
            environment = examination.plan.environment
            key = (python, environment.get("PYTHONPATH", ""), environment.get("VERL_USE_EXTERNAL_MODULES", ""))
            groups.setdefault(key, []).append(examination)
    answers: dict[str, tuple[Problem, ...]] = {}
    for (python, _, _), members in groups.items():
        texts = {member.plan.scenario: member.composition.text for member in members}
        answers |= check_all_importable(python, members[0].plan.environment, texts, members[0].source)
    return answers


def _interpreter(plan: Plan) -> Path | None:
    """Return the Python that will train, where it is on this machine already and starts without uv."""
    if plan.engine != "host" or len(plan.launcher) != 1 or plan.preflight_only:
        return None
    found = shutil.which(plan.launcher[0], path=plan.environment.get("PATH"))
    return Path(found) if found else None
