"""How the jobs are written: repeated, without a limit, or cleaned up too early."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from ci.workflows.audit.document import Job, Section, Workflow
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import Repository
from ci.workflows.audit.shell import commands

_BESIDE_THE_WORK = ("needs", "name", "timeout-minutes")
"""What may differ between two jobs that do the same."""


def jobs_in_one_line(repository: Repository) -> Iterator[Finding]:
    """Yield jobs whose shell text is one command."""
    for workflow, job in repository.jobs():
        texts = [step.run for step in job.steps if step.run is not None]
        if len(texts) == 1 and len(found := list(commands(texts[0]))) == 1:
            line = " ".join(found[0].words)
            message = f"{job.identifier} is one line already: {line}"
            yield Finding(rule="job-in-one-line", file=workflow.path, line=job.line, message=message)


def repeated_jobs(repository: Repository) -> Iterator[Finding]:
    """Yield each job that says the same as another one."""
    same: dict[str, list[tuple[Workflow, Job]]] = defaultdict(list)
    for workflow, job in repository.jobs():
        work = {key: value for key, value in job.data.items() if key not in _BESIDE_THE_WORK}
        if job.steps:
            same[json.dumps(work, sort_keys=True)].append((workflow, job))
    for group in same.values():
        files = dict.fromkeys(workflow.path.rpartition("/")[2] for workflow, _ in group)
        for workflow, job in group if len(group) > 1 else ():
            message = f"{job.identifier} is one of {len(group)} jobs that say the same, in {', '.join(files)}"
            yield Finding(rule="job-repeated", file=workflow.path, line=job.line, message=message)


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
