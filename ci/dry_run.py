"""A plan as text: what would be started, quoted so that it can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ci.plan import Plan
from ci.scenarios.model import Scenario


def plan_text(plan: Plan, scenario: Scenario) -> str:
    """Return the plan as lines for a person."""
    return "\n".join(_lines(plan, scenario))


def _lines(plan: Plan, scenario: Scenario) -> Iterator[str]:
    yield headline(plan)
    yield f"  {plan.summary}"
    yield from (f"  note: {note}" for note in plan.notes)
    roles = " + ".join(f"{part.role} {part.devices}" for part in plan.layout.roles)
    shared = f"{roles}, sharing {plan.layout.devices}" if plan.layout.colocated else f"{roles} = {plan.layout.devices}"
    ranks = "processes on the CPU" if plan.rehearsal else "devices"
    yield f"layout       {shared} {ranks}"
    yield f"devices      {plan.devices or 'none'}{f' × {plan.target}' if plan.devices else ''}"
    if plan.image is not None:
        state = "verified" if plan.image.verified else "not verified"
        yield f"image        {plan.image.reference} ({plan.image.digest or 'not pinned'}, {state})"
    yield f"verl         {plan.verl.kind} {plan.verl.name}"
    yield f"limits       {plan.limits}"
    yield from (f"mount        {mount.path}{' (read-only)' if mount.read_only else ''}" for mount in plan.mounts)
    yield from (f"model        {role}: {path}" for role, path in plan.models.items())
    yield from (f"data         {path}" for path in plan.data_files)
    yield from (
        f"check        {name}: {_check(check.model_dump(exclude_defaults=True))}" for name, check in plan.checks.items()
    )
    yield "knobs"
    width = max(len(f"{name}={value}") for name, value in plan.knobs.items())
    yield from (f"  {f'{name}={value}':<{width}}  {scenario.knobs[name].help}" for name, value in plan.knobs.items())
    for step in plan.steps:
        yield f"step {step.name}, unless {', '.join(step.creates)} {'are' if len(step.creates) > 1 else 'is'} there"
        yield f"  {shlex.join(step.argv)}"
    yield "command"
    if plan.working_directory:
        yield f"  cd {shlex.quote(plan.working_directory)} && \\"
    yield "  env \\"
    yield from (f"    {name}={shlex.quote(value)} \\" for name, value in sorted(plan.environment.items()))
    yield f"    {shlex.join((*plan.launcher, '-m', plan.module))} \\"
    *words, last = (*plan.overrides, *plan.arguments)
    yield from (f"      {shlex.quote(word)} \\" for word in words)
    yield f"      {shlex.quote(last)}"
    yield f"reproduce    {plan.reproduce}"


def headline(plan: Plan) -> str:
    """Return the line a session starts with: what runs, for which target, on which engine."""
    what = "a rehearsal on the CPU" if plan.rehearsal else f"{plan.devices} devices"
    place = f"engine {plan.engine}" if plan.image is None else f"engine {plan.engine}, image {plan.image.reference}"
    verl = f"of {plan.verl.name}" if plan.verl.kind == "installed" else plan.verl.name
    return f"e2e_{plan.scenario}: target {plan.target}, {what}; {place}; verl {verl}"


def _check(check: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in check.items() if key != "because")
