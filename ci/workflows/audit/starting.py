"""What starts a workflow, and what does not although it should."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ci.workflows.audit.document import Items, Section, Workflow
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import Repository
from ci.workflows.files import Files
from ci.workflows.paths import PatternError, pattern, starts

# lock file → the commands that install from it
_LOCKS = {
    "uv.lock": re.compile(r"\buv (?:run|sync)\b"),
    "poetry.lock": re.compile(r"\bpoetry (?:install|run|sync)\b"),
    "pdm.lock": re.compile(r"\bpdm (?:install|run|sync)\b"),
    "Pipfile.lock": re.compile(r"\bpipenv (?:install|run|sync)\b"),
    "package-lock.json": re.compile(r"\bnpm (?:ci|install|run)\b"),
    "pnpm-lock.yaml": re.compile(r"\bpnpm (?:install|run)\b"),
    "yarn.lock": re.compile(r"\byarn (?:install|run)\b"),
    "Cargo.lock": re.compile(r"\bcargo (?:build|test|run)\b"),
}
_PROMISE = re.compile(r"(?:^|[\W_])(?:e2e|tests?)(?:[\W_]|$)", re.IGNORECASE)
_TEST = re.compile(r"tests?(?:[\W_]|$)|pytest|\bnox\b|\btox\b|\bctest\b", re.IGNORECASE)


def dead_filters(repository: Repository) -> Iterator[Finding]:
    """Yield path filters that match no file."""
    files = Files(repository.files)
    for workflow in repository.workflows:
        for event, kind, patterns in workflow.filters():
            for text in patterns:
                if not isinstance(text, str):
                    continue
                line = getattr(text, "line", patterns.line)
                try:
                    alive = bool(files.matching(pattern(text)))
                except PatternError as error:
                    yield Finding(rule="workflow-unreadable", file=workflow.path, line=line, message=error.message)
                    continue
                if not alive:
                    message = f"`{text}` in {kind} of {event} matches none of {len(files.paths)} files"
                    yield Finding(rule="path-filter-dead", file=workflow.path, line=line, message=message)


def scripts_that_start_nothing(repository: Repository) -> Iterator[Finding]:
    """Yield pairs of a workflow and a script it runs whose change does not start it."""
    for use in repository.uses:
        events = _not_started_by(use.workflow, use.script)
        if events:
            message = f"runs {use.script}, but a change of it does not start this workflow on {' or '.join(events)}"
            yield Finding(rule="script-starts-nothing", file=use.workflow.path, line=use.line, message=message)


def locks_that_start_nothing(repository: Repository) -> Iterator[Finding]:
    """Yield workflows that install from a lock file whose change does not start them, and locks that start none."""
    for lock, installs in _LOCKS.items():
        if lock not in repository.known:
            continue
        filtered = [workflow for workflow in repository.workflows if _filters(workflow)]
        deaf = {workflow.path: events for workflow in filtered if (events := _not_started_by(workflow, lock))}
        for workflow in filtered:
            line = _installs(repository, workflow, installs)
            if line and workflow.path in deaf:
                on = " or ".join(deaf[workflow.path])
                message = f"installs from {lock}, but a change of it does not start this workflow on {on}"
                yield Finding(rule="lock-starts-nothing", file=workflow.path, line=line, message=message)
        if filtered and len(deaf) == len(filtered):
            message = f"starts none of the {len(filtered)} workflows with path filters"
            yield Finding(rule="lock-starts-nothing", file=lock, line=1, message=message)


def names_that_promise_tests(repository: Repository) -> Iterator[Finding]:
    """Yield workflows named after tests, none of whose commands has anything to do with a test."""
    for workflow in repository.workflows:
        name = next((n for n in (workflow.name, PurePosixPath(workflow.path).stem) if _PROMISE.search(n)), None)
        if name is None or any(job.called for job in workflow.jobs) or "workflow_call" in workflow.events:
            continue
        commands = list(repository.commands(workflow))
        actions = [step.uses for job in workflow.jobs for step in job.steps if step.uses]
        if any(_TEST.search(word) for command in commands for word in command.words) or any(map(_TEST.search, actions)):
            continue
        line = workflow.data.lines.get("name", 1)
        message = f"`{name}` runs no test: {', '.join(job.identifier for job in workflow.jobs)}"
        yield Finding(rule="name-promises-tests", file=workflow.path, line=line, message=message)


def _filters(workflow: Workflow) -> dict[str, dict[str, Items]]:
    filters: dict[str, dict[str, Items]] = {}
    for event, kind, patterns in workflow.filters():
        filters.setdefault(event, {})[kind] = patterns
    return filters


def _not_started_by(workflow: Workflow, path: str) -> list[str]:
    """Return the events with path filters on which a change of the file does not start the workflow."""
    events = []
    for event, kinds in _filters(workflow).items():
        try:
            started = starts([path], paths=kinds.get("paths"), ignore=kinds.get("paths-ignore", ()))
        except PatternError:
            continue  # told as unreadable
        if not started:
            events.append(event)
    return events


def _installs(repository: Repository, workflow: Workflow, installs: re.Pattern[str]) -> int | None:
    """Return the line on which a workflow installs from a lock: in a command, or in a variable that holds one."""
    for command in repository.commands(workflow):
        if installs.search(" ".join(command.words)):
            return command.line
    for data in (workflow.data, *(job.data for job in workflow.jobs)):
        environment = data.get("env")
        if isinstance(environment, Section):
            for key, value in environment.items():
                if isinstance(value, str) and installs.match(value):
                    return environment.lines[key]
    return None
