"""Whether a change loses coverage, a waiver has run out, or a retired job is left without an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date, timedelta

from ci.coverage.claims import Part, claim_problems, configuration, covered, lacking
from ci.coverage.ledger import Ledger, Waiver
from ci.coverage.migration import answers
from ci.errors import SuiteError
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.documents import nearest
from ci.scenarios.model import Accelerator

LONGEST_WAIVER = timedelta(days=366)


def coverage_problems(
    catalogue: Catalogue, ledger: Ledger, *, today: date, before: dict[Part, tuple[str, ...]] | None = None
) -> list[str]:
    """Return everything that is wrong with the ledger.

    `before` is what was covered at the base of the change; None compares with nothing.
    """
    return [
        *claim_problems(catalogue, ledger),
        *_lost(before or {}, catalogue, ledger, today),
        *_unanswered(catalogue, ledger, today),
        *_waivers(catalogue, ledger, today),
    ]


def _lost(before: dict[Part, tuple[str, ...]], catalogue: Catalogue, ledger: Ledger, today: date) -> Iterator[str]:
    now = covered(catalogue)
    for part, scenarios in before.items():
        capability, accelerator = part
        if part in now or _waived(ledger, capability, accelerator, today):
            continue
        jobs = _jobs_that_covered(ledger, part)
        once = f"; {', '.join(jobs)} covered it before" if jobs else ""
        last = " and ".join(f"e2e_{name}" for name in scenarios)
        yield (
            f"{capability} on {accelerator}: {last} covered it and no scenario does any more{once}"
            " → keep a scenario that covers it, or add a waiver to ci/coverage/waivers.yaml"
        )


def _jobs_that_covered(ledger: Ledger, part: Part) -> tuple[str, ...]:
    capability, accelerator = part
    older = {old for old, successor in ledger.retired.successors.items() if successor.by == capability}
    return tuple(
        name
        for name, job in ledger.retired.jobs.items()
        if job.accelerator == accelerator and (older | {capability}) & set(job.covers)
    )


def _unanswered(catalogue: Catalogue, ledger: Ledger, today: date) -> Iterator[str]:
    for answer in answers(catalogue, ledger, today=today):
        if answer.state == "open":  # an expired waiver is told once, below
            yield f"{answer.job}: {answer} → ci/coverage/waivers.yaml"


def _waivers(catalogue: Catalogue, ledger: Ledger, today: date) -> Iterator[str]:
    now = covered(catalogue)
    for name, waiver in ledger.waivers.items():
        shown = f"waiver `{name}` ({', '.join(waiver.capabilities)})"
        if waiver.until < today:
            yield f"{shown} ran out on {waiver.until}: {waiver.owner} has to cover it, or give a new reason and date"
        if waiver.until - today > LONGEST_WAIVER:
            yield f"{shown} runs until {waiver.until}: at most {LONGEST_WAIVER.days} days, so that somebody looks again"
        for capability in waiver.capabilities:
            on = _accelerators(waiver, ledger, capability)
            if on and all((capability, accelerator) in now for accelerator in on):
                yield f"{shown}: {capability} is covered now, take it out"
        yield from (f"{shown}: {complaint}" for complaint in _by_hand(waiver, catalogue, ledger))


def _accelerators(waiver: Waiver, ledger: Ledger, capability: str) -> Collection[Accelerator]:
    """Return the kinds of device on which a waiver excuses a capability: its own, or those of the retired jobs."""
    if waiver.accelerator is not None:
        return (waiver.accelerator,)
    return {job.accelerator for job in ledger.retired.jobs.values() if capability in job.covers}


def _by_hand(waiver: Waiver, catalogue: Catalogue, ledger: Ledger) -> Iterator[str]:
    for run in waiver.by_hand:
        scenario = catalogue.get(run.scenario)
        if scenario is None:
            yield f"by_hand: no scenario is called `{run.scenario}`{nearest(run.scenario, tuple(catalogue))}"
        elif unknown := set(run.knobs) - set(scenario.knobs):
            yield f"by_hand: e2e_{run.scenario} has no knob {', '.join(sorted(unknown))}"
        else:
            try:
                settings = configuration(run.scenario, scenario, knobs=run.knobs, arguments=run.arguments)
            except SuiteError as error:
                yield f"by_hand: {error}"
                continue
            for capability in waiver.capabilities:
                for complaint in lacking(ledger.capabilities[capability], settings, scenario.accelerator):
                    line = run.line(scenario.accelerator)
                    yield f"by_hand: `{line}` does not cover {capability}: {complaint}"


def _waived(ledger: Ledger, capability: str, accelerator: Accelerator, today: date) -> bool:
    return any(waiver.covers(capability, accelerator) and waiver.until >= today for waiver in ledger.waivers.values())
