"""The audit as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ci.workflows.audit.finding import Finding
from ci.workflows.audit.jobs import (
    cleanups_that_leave_out,
    jobs_in_one_line,
    missing_timeouts,
    names_used_twice,
    repeated_jobs,
)
from ci.workflows.audit.references import missing_references
from ci.workflows.audit.repository import Repository
from ci.workflows.audit.scripts import scripts_without_set_e
from ci.workflows.audit.starting import (
    dead_filters,
    locks_that_start_nothing,
    names_that_promise_tests,
    scripts_that_start_nothing,
)
from ci.workflows.audit.supply import actions_without_commit, images_without_digest, unpinned_installs

_CHECKS: tuple[Callable[[Repository], Iterator[Finding]], ...] = (
    dead_filters,
    scripts_that_start_nothing,
    locks_that_start_nothing,
    names_that_promise_tests,
    jobs_in_one_line,
    repeated_jobs,
    names_used_twice,
    missing_timeouts,
    cleanups_that_leave_out,
    scripts_without_set_e,
    images_without_digest,
    actions_without_commit,
    unpinned_installs,
    missing_references,
)


def audit(root: Path) -> tuple[Finding, ...]:
    """Return everything found in a repository, by file and line.

    Raises:
        ConfigError: when the folder has no workflows.
    """
    repository = Repository.at(root)
    found = set(repository.unreadable)
    for check in _CHECKS:
        found |= set(check(repository))
    return tuple(sorted(found))
