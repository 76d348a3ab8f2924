"""Files that workflows, documents and code owners refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ci.workflows.audit.document import Text
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import DIRECTORY, Repository
from ci.workflows.audit.shell import commands
from ci.workflows.files import Files
from ci.workflows.paths import pattern

_ENDINGS = (".sh", ".py", ".yml", ".yaml", ".toml", ".txt")
_PATH = re.compile(r"(?:\./)?([\w.-]+(?:/[\w.-]+)+)")
_IN_DOCUMENT = re.compile(r"(?<![\w./:@~$}>-])((?:[\w.-]+/)+[\w.-]+\.(?:sh|py|ya?ml))(?![\w/.*{<-]*[*{<$])")
_WORKFLOW_NAME = re.compile(r"(?<![\w./*-])([\w-]+\.ya?ml)(?![\w*])")
_PLACEHOLDER = re.compile(r"(?:^|[/_-])(?:your|my|xxx+|foo|template)(?:[/_.-]|$)", re.IGNORECASE)
_STANDS_FOR_A_NAME = re.compile(r"(?:^|/)[A-Z_]{3,}\.")
_OWNERS = ("CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS")


def missing_references(repository: Repository) -> Iterator[Finding]:
    """Yield references to files that are not there."""
    yield from _in_workflows(repository)
    yield from _in_documents(repository)
    yield from _of_owners(repository)


def _in_workflows(repository: Repository) -> Iterator[Finding]:
    for workflow, job in repository.jobs():
        for uses in (job.called, *(step.uses for step in job.steps)):
            if uses is not None and uses.startswith("./") and not _exists(repository, uses.removeprefix("./")):
                message = f"uses {uses}, which is not there"
                yield Finding(rule="reference-missing", file=workflow.path, line=uses.line, message=message)
        for step in job.steps:
            if step.run is not None and "working-directory" not in step.data:
                yield from _in_run(repository, workflow.path, step.run)


def _in_run(repository: Repository, path: str, run: Text) -> Iterator[Finding]:
    for command in commands(run):
        if command.words[0] in {"cd", "pushd", "git", "mkdir", "curl", "wget", "tar", "echo", "printf"}:
            if command.words[0] in {"cd", "pushd"}:
                return  # what follows is relative to another folder
            continue
        for word in command.words:
            match = _PATH.fullmatch(word.partition("::")[0])
            if match and match[1].endswith(_ENDINGS) and _lacks(repository, match[1], beside=""):
                message = f"runs or reads {match[1]}, which is not there"
                yield Finding(rule="reference-missing", file=path, line=command.line, message=message)


def _in_documents(repository: Repository) -> Iterator[Finding]:
    for path in repository.files:
        if not path.endswith((".md", ".rst")):
            continue
        beside = PurePosixPath(path).parent.as_posix()
        for number, line in enumerate(repository.text(path).splitlines(), start=1):
            named = {match for match in _IN_DOCUMENT.findall(line) if _lacks(repository, match, beside=beside)}
            if beside == DIRECTORY:
                named |= {n for n in _WORKFLOW_NAME.findall(line) if f"{DIRECTORY}/{n}" not in repository.known}
            for name in sorted(named):
                message = f"names {name}, which is not there"
                yield Finding(rule="reference-missing", file=path, line=number, message=message)


def _lacks(repository: Repository, path: str, *, beside: str) -> bool:
    """Return whether a path points into a folder of the repository, and at nothing in it.

    A path whose first folder is unknown speaks of something else: another repository, an output, a submodule.
    """
    path = path.removeprefix("./")
    first, _, rest = path.partition("/")
    if first not in repository.folders or ".." in path.split("/") or _PLACEHOLDER.search(path):
        return False
    if _STANDS_FOR_A_NAME.search(path):
        return False
    # `verl/scripts/...` can start at the folder that the repository was cloned into
    return not any(_exists(repository, form) for form in (path, f"{beside}/{path}", rest))


def _exists(repository: Repository, path: str) -> bool:
    return path in repository.known or path in repository.folders


def _of_owners(repository: Repository) -> Iterator[Finding]:
    files = Files(repository.files)
    for path in _OWNERS:
        if path not in repository.known:
            continue
        for number, line in enumerate(repository.text(path).splitlines(), start=1):
            owned = line.partition("#")[0].split()[:1]
            for text in owned:
                if not any(files.matching(pattern(form)) for form in _forms(text)):
                    message = f"gives owners to {text}, which matches no file"
                    yield Finding(rule="reference-missing", file=path, line=number, message=message)


def _forms(text: str) -> Iterator[str]:
    """Yield a code owners' pattern in the syntax of path filters: itself, and everything inside it.

    See https://docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
    """
    body = re.sub(r"[\[\]?+!]", r"\\\g<0>", text.strip("/"))
    rooted = "/" in text.rstrip("/")
    start = "" if rooted else "**/"
    if not text.endswith("/"):
        yield f"{start}{body}"
    yield f"{start}{body}/**"
