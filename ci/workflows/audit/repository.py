"""A repository as the audit sees it: its files, and its workflows."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ci.errors import ConfigError
from ci.workflows.audit.document import Job, Text, Workflow, parse
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.shell import Command, commands, commands_of
from ci.workflows.changes import tracked

DIRECTORY = ".github/workflows"
_SCRIPT = re.compile(r"(?:\./)?((?:[\w.-]+/)*[\w.-]+\.(?:sh|py))")


@dataclass(frozen=True, kw_only=True)
class Use:
    """A script that a workflow runs, and where it says so."""

    workflow: Workflow
    script: str
    line: int


@dataclass(kw_only=True)
class Repository:
    """The files of a repository, read once."""

    root: Path
    files: tuple[str, ...]
    workflows: tuple[Workflow, ...] = ()
    unreadable: list[Finding] = field(default_factory=list)
    _texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path) -> Repository:
        """Return the repository in a folder.

        Raises:
            ConfigError: when the folder has no workflows.
        """
        if not (root / DIRECTORY).is_dir():
            raise ConfigError(f"{root} has no {DIRECTORY}", hint="name the top folder of a repository with workflows")
        repository = cls(root=root, files=tracked(root))
        repository.workflows = tuple(repository._read_workflows())
        return repository

    def _read_workflows(self) -> Iterator[Workflow]:
        for path in self.files:
            if Path(path).parent.as_posix() == DIRECTORY and path.endswith((".yml", ".yaml")):
                try:
                    yield Workflow(path=path, data=parse((self.root / path).read_bytes()))
                except (yaml.YAMLError, ValueError, RecursionError) as error:  # an alias inside its own anchor
                    mark = getattr(error, "problem_mark", None)
                    line = mark.line + 1 if mark else 1
                    said = str(getattr(error, "problem", None) or error)
                    self.unreadable.append(Finding(rule="workflow-unreadable", file=path, line=line, message=said))

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Return the files as a set."""
        return frozenset(self.files)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """Return every folder that holds a file."""
        return frozenset(str(parent) for path in self.files for parent in Path(path).parents)

    def text(self, path: str) -> str:
        """Return what a file says; nothing for a link that leads nowhere, or a submodule."""
        if path not in self._texts:
            try:
                self._texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                self._texts[path] = ""
        return self._texts[path]

    def jobs(self) -> Iterator[tuple[Workflow, Job]]:
        """Yield every job of every workflow."""
        for workflow in self.workflows:
            for job in workflow.jobs:
                yield workflow, job

    def commands(self, workflow: Workflow) -> Iterator[Command]:
        """Yield every command that a workflow's own text has."""
        for job in workflow.jobs:
            for step in job.steps:
                if step.run is not None:
                    yield from commands(step.run)

    @functools.cached_property
    def uses(self) -> tuple[Use, ...]:
        """Return each script that a workflow's own text starts, once for each workflow."""
        found: dict[tuple[str, str], Use] = {}
        for workflow in self.workflows:
            for line, script in self._scripts_of(workflow):
                found.setdefault((workflow.path, script), Use(workflow=workflow, script=script, line=line))
        return tuple(found.values())

    def _scripts_of(self, workflow: Workflow) -> Iterator[tuple[int, str]]:
        for job in workflow.jobs:
            for step in job.steps:
                folder = str(step.data.get("working-directory") or "").strip("./")
                for command in commands(step.run or _NOTHING):
                    folder = _entered(command, folder)
                    for word in () if command.only_says else command.words:
                        match = _SCRIPT.fullmatch(word.partition("::")[0])  # as pytest names one test
                        script = match and next((p for p in _candidates(match[1], folder) if p in self.known), None)
                        if script:
                            yield command.line, script

    def reached(self, script: str) -> frozenset[str]:
        """Return a script with all the scripts it starts in turn."""
        found: set[str] = set()
        waiting = [script]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                for command in commands_of(self.text(path)):
                    waiting += [word for word in command.words if word.endswith(".sh") and word in self.known]
        return frozenset(found)


_NOTHING = Text("")
_NOTHING.line, _NOTHING.block = 1, False


def _entered(command: Command, folder: str) -> str:
    """Return the folder that the next command runs in."""
    match command.words:
        case ("cd" | "pushd", target) if not target.startswith(("/", "$", "~", "-")):
            return "/".join(part for part in (folder, target.strip("./")) if part) if target != ".." else ""
        case _:
            return folder


def _candidates(path: str, folder: str) -> tuple[str, ...]:
    return (f"{folder}/{path}", path) if folder else (path,)
