"""Tasks on the ledger of coverage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from rich.console import Console

from ci.coverage.base import covered_at
from ci.coverage.check import coverage_problems
from ci.coverage.ledger import load as load_ledger
from ci.coverage.page import page
from ci.coverage.reach import reach_problems
from ci.coverage.report import print_coverage, print_migration
from ci.errors import collected
from ci.invocation import suite_task
from ci.scenarios.catalogue import load as load_catalogue


@suite_task
def show(_: Context, html: str = "") -> None:
    """Show which scenario covers what; --html FILE."""
    catalogue, ledger, today = load_catalogue(), load_ledger(), datetime.now(UTC).date()
    if html:
        Path(html).write_text(page(catalogue, ledger, today=today), encoding="utf-8")
    else:
        print_coverage(catalogue, ledger, Console())


@suite_task
def check(_: Context, base: str = "") -> None:
    """Fail when coverage is lost, or a waiver has run out.

    Lost is what --base REF covered; a retired job without an answer fails too.
    """
    catalogue, ledger, today = load_catalogue(), load_ledger(), datetime.now(UTC).date()
    before = covered_at(base) if base else None
    problems = coverage_problems(catalogue, ledger, today=today, before=before) + reach_problems(catalogue)
    if problems:
        raise collected(problems, what="the ledger of coverage does not hold")
    print(f"the ledger holds: {len(catalogue)} scenarios, {len(ledger.retired.jobs)} retired jobs answered for")


@suite_task
def migration(_: Context) -> None:
    """Show where each part of the retired jobs lives now."""
    print_migration(load_catalogue(), load_ledger(), Console(), today=datetime.now(UTC).date())


namespace = Collection("coverage", show, check, migration)
