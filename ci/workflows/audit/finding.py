"""What the audit finds, and the rules it finds it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing the audit looks for."""

    level: Level
    summary: str
    remedy: str


RULES: dict[str, Rule] = {
    "workflow-unreadable": Rule(
        level="error",
        summary="A workflow that GitHub cannot read never starts",
        remedy="mend the YAML; `check-jsonschema --builtin-schema vendor.github-workflows` tells more",
    ),
    "path-filter-dead": Rule(
        level="warning",
        summary="A path filter that matches no file waits for something that cannot change",
        remedy="write the path as it is now, or take the filter away",
    ),
    "script-starts-nothing": Rule(
        level="warning",
        summary="A script that does not start the workflow that runs it is changed untested",
        remedy="add its path to the workflow's `paths`, after the patterns that take it out",
    ),
    "lock-starts-nothing": Rule(
        level="warning",
        summary="A lock file that does not start the workflow that installs from it is changed untested",
        remedy="add the lock file to the workflow's `paths`",
    ),
    "name-promises-tests": Rule(
        level="warning",
        summary="A workflow is named after tests that it does not run",
        remedy="run the tests, or give it another name",
    ),
    "job-in-one-line": Rule(
        level="note",
        summary="A job whose work is one line can be repeated on any machine with that line",
        remedy="nothing: this is how the others could be",
    ),
    "job-repeated": Rule(
        level="note",
        summary="A job is written out several times, and every change has to be made in all of them",
        remedy="make it one reusable workflow (`on: workflow_call`)",
    ),
    "job-nearly-repeated": Rule(
        level="note",
        summary="A job differs from another one in a few lines, and the rest has to be kept the same by hand",
        remedy="make what differs an input of one reusable workflow, or a line of a matrix",
    ),
    "job-name-twice": Rule(
        level="warning",
        summary="A job name is used twice, so a required check cannot tell which one it means",
        remedy="give each job a name of its own over all workflows",
    ),
    "timeout-missing": Rule(
        level="warning",
        summary="A job without a time limit holds its machine for six hours when it hangs",
        remedy="set `timeout-minutes` a little above what it takes",
    ),
    "cleanup-leaves-out": Rule(
        level="error",
        summary="A cleanup job does not wait for a job whose machine it takes away",
        remedy="add the job to the cleanup's `needs`",
    ),
    "script-without-set-e": Rule(
        level="warning",
        summary="A script goes on after a command that failed, and its job can pass",
        remedy="begin it with `set -euo pipefail`",
    ),
    "image-without-digest": Rule(
        level="warning",
        summary="An image named by its tag alone can be another one tomorrow",
        remedy="pin it: `name:tag@sha256:...`",
    ),
    "action-without-commit": Rule(
        level="warning",
        summary="An action named by tag or branch can be another one tomorrow",
        remedy="pin the full commit, with the version in a comment",
    ),
    "install-unpinned": Rule(
        level="warning",
        summary="A package installed in the job without a version can be another one tomorrow",
        remedy="pin it with `==`, or bring it along in the image",
    ),
    "reference-missing": Rule(
        level="error",
        summary="A file is referred to that is not there",
        remedy="write the path as it is now, or take the reference away",
    ),
}


@dataclass(frozen=True, kw_only=True, order=True)
class Finding:
    """One thing that is wrong, and where."""

    file: str
    line: int
    """Counted from 1."""
    rule: str
    message: str

    @property
    def level(self) -> Level:
        """Return how grave it is."""
        return RULES[self.rule].level
