"""Where each part of the retired jobs lives now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from ci.coverage.claims import Part, covered
from ci.coverage.ledger import Ledger
from ci.scenarios.catalogue import Catalogue

State = Literal["covered", "waived", "expired", "open"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one capability that a retired job covered."""

    job: str
    part: Part
    state: State
    successor: str | None
    """The capability that stands for it now, where it has another name."""
    because: str
    """Why the successor is the same, or why it is waived."""
    scenarios: tuple[str, ...]
    """Those that stand in the job's place where they cover it, else all that do."""
    waiver: str | None
    owner: str | None = None
    until: date | None = None
    by_hand: str | None = None

    def __str__(self) -> str:
        capability, accelerator = self.part
        renamed = f" as {self.successor}" if self.successor else ""
        match self.state:
            case "covered":
                return f"{capability}: {', '.join(f'e2e_{name}' for name in self.scenarios)}{renamed}"
            case "waived":
                return f"{capability}: waived until {self.until} ({self.waiver}, {self.owner})"
            case "expired":
                return f"{capability}: the waiver `{self.waiver}` of {self.owner} ran out on {self.until}"
            case "open":
                return f"{capability}: no scenario covers it on {accelerator}{renamed}, and no waiver says why"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Something no job ever covered, and the scenarios that do by now."""

    name: str
    scenarios: tuple[str, ...]


def answers(catalogue: Catalogue, ledger: Ledger, *, today: date) -> tuple[Answer, ...]:
    """Return one answer for each part of each retired job."""
    return tuple(
        _answer(job, capability, catalogue, ledger, today)
        for job, entry in ledger.retired.jobs.items()
        for capability in entry.covers
    )


def _answer(job: str, capability: str, catalogue: Catalogue, ledger: Ledger, today: date) -> Answer:
    now = covered(catalogue)
    retired = ledger.retired.jobs[job]
    accelerator = retired.accelerator
    part = (capability, accelerator)
    successor = ledger.retired.successors.get(capability)
    for candidate, because in ((capability, ""), *(((successor.by, successor.because),) if successor else ())):
        scenarios = now.get((candidate, accelerator), ())
        if scenarios:
            in_its_place = tuple(name for name in scenarios if name in retired.replaced_by)
            renamed = candidate if candidate != capability else None
            return Answer(
                job=job,
                part=part,
                state="covered",
                successor=renamed,
                because=because,
                scenarios=in_its_place or scenarios,
                waiver=None,
            )
    waiving = [(name, waiver) for name, waiver in ledger.waivers.items() if waiver.covers(capability, accelerator)]
    if not waiving:
        by = successor.by if successor else None
        return Answer(job=job, part=part, state="open", successor=by, because="", scenarios=(), waiver=None)
    name, waiver = max(waiving, key=lambda pair: pair[1].until)
    return Answer(
        job=job,
        part=part,
        state="waived" if waiver.until >= today else "expired",
        successor=None,
        because=waiver.reason,
        scenarios=(),
        waiver=name,
        owner=waiver.owner,
        until=waiver.until,
        by_hand=next(
            (
                run.line(accelerator)
                for run in waiver.by_hand
                if run.scenario in catalogue and catalogue[run.scenario].accelerator == accelerator
            ),
            None,
        ),
    )


def gaps(catalogue: Catalogue, ledger: Ledger) -> tuple[Gap, ...]:
    """Return what no job ever covered, with the scenarios that cover it by now."""
    return tuple(
        Gap(
            name=name,
            scenarios=tuple(
                scenario
                for scenario, declared in catalogue.items()
                if set(gap.all_of) <= set(declared.covers) and set(gap.any_of) & set(declared.covers)
            ),
        )
        for name, gap in ledger.retired.never_covered.items()
    )
