"""How the jobs are written: repeated, without a limit, or cleaned up too early."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from ci.workflows.audit.document import Job, Section, Workflow
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import Repository
from ci.workflows.audit.shell import commands

_FEWEST_LINES = 8
_NEARLY = 0.8
_BESIDE_THE_WORK = ("needs", "name", "timeout-minutes")
"""What may differ between two jobs that do the same."""


def jobs_in_one_line(repository: Repository) -> Iterator[Finding]:
    """Yield jobs whose shell text is one command, or that end with a step which becomes one by ``exec``."""
    for workflow, job in repository.jobs():
        steps = [list(commands(step.run)) for step in job.steps if step.run is not None]
        lines = [" ".join(step[0].words) for step in steps if len(step) == 1]
        replaced = [line for line in lines if line.startswith("exec ")]
        if len(replaced) == 1 or (len(steps) == len(lines) == 1):
            message = f"{job.identifier} is one line already: {(replaced or lines)[0]}"
            yield Finding(rule="job-in-one-line", file=workflow.path, line=job.line, message=message)


def repeated_jobs(repository: Repository) -> Iterator[Finding]:
    """Yield each job that says the same as another one, and each that says nearly the same as one before it."""
    same: dict[str, list[tuple[Workflow, Job]]] = defaultdict(list)
    for workflow, job in repository.jobs():
        work = {key: value for key, value in job.data.items() if key not in _BESIDE_THE_WORK}
        if job.steps:
            same[json.dumps(work, sort_keys=True)].append((workflow, job))
    yield from _nearly([(json.loads(text), *group[0]) for text, group in same.items()])
    for group in same.values():
        files = dict.fromkeys(workflow.path.rpartition("/")[2] for workflow, _ in group)
        for workflow, job in group if len(group) > 1 else ():
            message = f"{job.identifier} is one of {len(group)} jobs that say the same, in {', '.join(files)}"
            yield Finding(rule="job-repeated", file=workflow.path, line=job.line, message=message)


def _nearly(jobs: list[tuple[dict[str, object], Workflow, Job]]) -> Iterator[Finding]:
    before: list[tuple[frozenset[str], Workflow, Job]] = []
    for work, workflow, job in jobs:
        lines = frozenset(_lines(work))
        alike = max(((_likeness(lines, other), index) for index, (other, _, _) in enumerate(before)), default=(0.0, 0))
        if len(lines) >= _FEWEST_LINES and alike[0] >= _NEARLY:
            _, there, like = before[alike[1]]
            place = f"{like.identifier} of {there.path}:{like.line}"
            message = f"{job.identifier} says {alike[0]:.0%} the same as {place}"
            yield Finding(rule="job-nearly-repeated", file=workflow.path, line=job.line, message=message)
        before.append((lines, workflow, job))


def _lines(work: object, place: str = "") -> Iterator[str]:
    """Yield what a job says, a line each: shell line by line, anything else with its key."""
    match work:
        case dict():
            for key, value in work.items():
                yield from _lines(value, key)
        case list():
            for value in work:
                yield from _lines(value, place)
        case _:
            yield from (f"{place}: {line.strip()}" for line in str(work).splitlines() if line.strip())


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return which share of the lines of both is in each."""
    return len(one & other) / len(one | other) if one | other else 0.0


def names_used_twice(repository: Repository) -> Iterator[Finding]:
    """Yield each job whose name another one has, the first of them excepted."""
    first: dict[str, tuple[Workflow, Job]] = {}
    for workflow, job in repository.jobs():
        name = str(job.data.get("name") or job.identifier)
        if "${{" in name or "workflow_call" in workflow.events:
            continue  # a matrix, or the caller, makes it another one each time
        other, named = first.setdefault(name, (workflow, job))
        if named is not job and (other.path, named.identifier) != (workflow.path, job.identifier):
            message = f"`{name}` is the name of a job of {other.path}:{named.line} too"
            yield Finding(rule="job-name-twice", file=workflow.path, line=job.line, message=message)


def missing_timeouts(repository: Repository) -> Iterator[Finding]:
    """Yield jobs without a time limit, of their own or of each of their steps."""
    for workflow, job in repository.jobs():
        limited = all("timeout-minutes" in step.data for step in job.steps) if job.steps else False
        if job.called is None and "timeout-minutes" not in job.data and not limited:
            message = f"{job.identifier} has no timeout-minutes: GitHub ends it after 360"
            yield Finding(rule="timeout-missing", file=workflow.path, line=job.line, message=message)


def cleanups_that_leave_out(repository: Repository) -> Iterator[Finding]:
    """Yield jobs that run whatever happens and take away what another job still uses."""
    for workflow in repository.workflows:
        jobs = {job.identifier: job for job in workflow.jobs}
        for cleanup in jobs.values():
            if "always()" not in str(cleanup.data.get("if", "")):
                continue
            awaited = _awaited(cleanup, jobs)
            for owner in cleanup.needs:
                if owner not in jobs or not _mentions_outputs(cleanup.data, owner):
                    continue
                for user in jobs.values():
                    if user is not cleanup and user.identifier not in awaited and _mentions_outputs(user.data, owner):
                        message = f"{cleanup.identifier} takes away what {owner} made, not awaiting {user.identifier}"
                        line = cleanup.data.lines["needs"]
                        yield Finding(rule="cleanup-leaves-out", file=workflow.path, line=line, message=message)


def _awaited(job: Job, jobs: dict[str, Job]) -> set[str]:
    """Return the jobs that have ended when this one runs: only its own needs, since a skipped job waits for nobody."""
    return {job.identifier, *(name for name in job.needs if name in jobs)}


def _mentions_outputs(data: Section, owner: str) -> bool:
    return f"needs.{owner}.outputs" in json.dumps(data)
