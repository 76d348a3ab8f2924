"""Tasks on GitHub's workflows."""

from __future__ import annotations

from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context

from ci.invocation import suite_task
from ci.workflows import generate as generation
from ci.workflows.audit.output import report
from ci.workflows.leftovers import reap as reap_leftovers
from ci.workflows.summary import summarise
from ci.workflows.unpinned import unpinned


@suite_task
def generate(_: Context) -> None:
    """Write the workflows from catalogue, settings and lock."""
    print("\n".join(generation.write()) or "the workflows are up to date")


@suite_task
def check(_: Context) -> None:
    """Fail when the workflows are not the generated ones."""
    generation.check()
    print("the workflows follow from the catalogue", *unpinned(generation.current()), sep="\n")


@suite_task
def audit(_: Context, path: str, form: str = "table", output: str = "", fail_on: str = "") -> None:
    """Find what is wrong with any repository's workflows.

    --form is table, json or sarif, --output a file to write it to.
    """
    report(Path(path), form=form, output=output, fail_on=fail_on)


@suite_task
def summary(_: Context) -> None:
    """Put the newest run into GitHub's step summary."""
    print(summarise(generation.ROOT / "runs") or "no run was recorded")


@suite_task
def reap(_: Context) -> None:
    """End what runs of dead owners left on this machine."""
    print("\n".join(reap_leftovers()) or "nothing was left behind")


namespace = Collection("workflows", generate, check, audit, summary, reap)
