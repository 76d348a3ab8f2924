"""What a workflow takes in from elsewhere: images, actions, packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ci.workflows.audit.document import Section, Text
from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import Repository

_COMMIT = re.compile(r"[0-9a-f]{40}")
_IMAGE = re.compile(r"[\w.-]+(?::[0-9]+)?(?:/[\w.-]+)+:[\w.-]+")
_OPTIONS_WITH_A_VALUE = frozenset(
    """
    -r --requirement -c --constraint -e --editable -i --index-url --extra-index-url -f --find-links -t --target
    --python --python-version --index-strategy --trusted-host --prefix --index --default-index --root --src
    --platform --abi --no-binary --only-binary --timeout --retries --cache-dir --proxy --torch-backend --project
    --directory --group --no-build-isolation-package --reinstall-package --upgrade-package -P --config-settings -C
    """.split()  # noqa: SIM905  # a list of forty lines reads worse
)
_FOLLOWED_BY_A_FOLDER = (".", "/", "~", "$", "EXPRESSION")


def actions_without_commit(repository: Repository) -> Iterator[Finding]:
    """Yield actions and reusable workflows of other repositories that are named by tag or branch."""
    for workflow, job in repository.jobs():
        for uses in (job.called, *(step.uses for step in job.steps)):
            if uses is None or uses.startswith(("./", "docker://")):
                continue
            reference = uses.partition("@")[2]
            if not _COMMIT.fullmatch(reference):
                message = f"{uses} is named by {reference or 'nothing'}, not by commit"
                yield Finding(rule="action-without-commit", file=workflow.path, line=uses.line, message=message)


def images_without_digest(repository: Repository) -> Iterator[Finding]:
    """Yield container images that are named by tag, where a job, a service, an action or a variable names one."""
    for workflow in repository.workflows:
        for image in _images(workflow.data):
            if "@sha256:" not in image and "${{" not in image:
                message = f"{image} has no digest"
                yield Finding(rule="image-without-digest", file=workflow.path, line=image.line, message=message)


def _images(data: Section) -> Iterator[Text]:
    """Yield whatever a key that speaks of an image names, and ``container`` and ``uses: docker://`` themselves."""
    for key, value in data.items():
        match value:
            case Section():
                yield from _images(value)
            case Text() if key == "container" and value:
                yield value
            case Text() if key == "uses" and value.startswith("docker://"):
                yield value
            case Text() if key.lower().endswith("image") and _IMAGE.fullmatch(value.partition("@")[0]):
                yield value
            case list():
                for item in value:
                    if isinstance(item, Section):
                        yield from _images(item)


def unpinned_installs(repository: Repository) -> Iterator[Finding]:
    """Yield packages that a job installs without saying which version."""
    for workflow in repository.workflows:
        for command in repository.commands(workflow):
            loose = [package for package in _installed(command.words) if not _pinned(package)]
            if loose and not command.only_says:
                message = f"{', '.join(loose)} installed without a version"
                yield Finding(rule="install-unpinned", file=workflow.path, line=command.line, message=message)


def _installed(words: Sequence[str]) -> Iterator[str]:
    """Yield the packages of a ``pip install``, however pip is started."""
    for index, word in enumerate(words[:-1]):
        if word.rpartition("/")[2] in {"pip", "pip3"} and words[index + 1] == "install":
            break
    else:
        return
    waiting = iter(words[index + 2 :])
    for word in waiting:
        if word in {">", ">>", "2>", "2>&1"}:
            return
        if word in _OPTIONS_WITH_A_VALUE:
            next(waiting, None)
        elif not word.startswith("-"):
            yield word


def _pinned(package: str) -> bool:
    """Return whether a requirement names one version, or is no package of an index at all."""
    if package.startswith(_FOLLOWED_BY_A_FOLDER) or package.endswith((".whl", ".tar.gz", ".zip")):
        return True
    if "git+" in package:
        return re.search(r"@[\w.-]*\d[\w.-]*(?:#|$)", package) is not None
    return "==" in package or "/" in package
