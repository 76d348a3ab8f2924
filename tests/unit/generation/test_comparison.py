"""The five jobs that the migration added, against verl's own: the same, or better with a reason for each difference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.options import Options
from ci.scenarios.catalogue import load
from ci.workflows.generate import current
from ci.workflows.paths import PathFilter
from tests.unit.generation.conftest import workflows_of
from tests.unit.plans import plan_of

DATA = Path(__file__).parents[2] / "data"
UPSTREAM = yaml.safe_load((DATA / "upstream_jobs.yaml").read_text())
EXPECTED = yaml.safe_load((DATA / "workflow_differences.yaml").read_text())
WORKFLOWS = workflows_of(current())
JOBS = tuple(UPSTREAM["jobs"])


def workflow_of(name: str) -> dict[str, Any]:
    return next(workflow for workflow in WORKFLOWS.values() if f"e2e_{name}" in workflow["jobs"])


def theirs(name: str) -> dict[str, Any]:
    job = UPSTREAM["jobs"][name]
    fields = {key: job[key] for key in ("runner", "image", "shared_memory", "timeout_minutes", "data", "installs")}
    return {
        **fields,
        **{f"env.{key}": value for key, value in job["env"].items()},
        "needs": [UPSTREAM_NAMES[need] for need in job["needs"]],
        "runs_after_a_failure": False if job["needs"] else None,
        "concurrency": ["one group for a branch", "the branch main is not cancelled"],
        "branches": UPSTREAM["workflows"][job["workflow"]]["branches"],
        "fetch_depth": 0,
    }


UPSTREAM_NAMES = {job["job"]: name for name, job in UPSTREAM["jobs"].items()}


def ours(name: str) -> dict[str, Any]:
    workflow = workflow_of(name)
    job = workflow["jobs"][f"e2e_{name}"]
    container = job.get("container", {})
    elastic = next((other for other in workflow["jobs"].values() if other.get("with", {}).get("image")), None)
    plan = plan_of(name, Options(target=load()[name].accelerator))
    launcher = [*plan.launcher[:-1]]
    effective = {
        **{key: str(value) for key, value in plan.knobs.items()},
        **plan.environment,
        **job["env"],
        **({"UV_RUN": " ".join(launcher)} if launcher else {}),
    }
    needs = [need.removeprefix("e2e_") for need in job.get("needs", []) if need.removeprefix("e2e_") in load()]
    branch = "github.event.pull_request.number || github.run_id" in workflow["concurrency"]["group"]
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    return {
        "runner": "elastic machine" if elastic else job["runs-on"],
        "image": elastic["with"]["image"] if elastic else container["image"],
        "shared_memory": container.get("options"),
        "timeout_minutes": job["timeout-minutes"],
        "data": [" ".join(step.argv[len(plan.launcher) :]).replace("/home/ci", "${HOME}") for step in plan.steps],
        "installs": re.findall(r"nox==\S+", scripts),
        **{f"env.{key}": value for key, value in effective.items()},
        "needs": needs,
        "runs_after_a_failure": "!cancelled()" in job.get("if", "") if needs else None,
        "concurrency": ["a group for each run of a branch"] if branch else [],
        "branches": workflow["on"]["push"]["branches"],
        "fetch_depth": job["steps"][1]["with"].get("fetch-depth", 1),
    }


def differing(name: str) -> dict[str, tuple[Any, Any]]:
    us, them = ours(name), theirs(name)
    found = {field: (value, us.get(field)) for field, value in them.items() if us.get(field) != value}
    if "image" in found and "@sha256:" in us["image"]:
        del found["image"]  # pinned by digest is better than the tag, and needs no reason
    return found


@pytest.mark.parametrize("name", JOBS)
def test_each_difference_has_its_reason(name: str) -> None:
    expected = {
        entry["field"]: (entry["theirs"], entry["ours"])
        for entry in EXPECTED["differences"]
        if name in entry["jobs"] and len(entry["because"].split()) > 5
    }
    assert differing(name) == expected


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("event", ["push", "pull_request"])
def test_what_starts_theirs_starts_ours_or_has_its_reason(name: str, event: str) -> None:
    files = (DATA / "upstream_files.txt").read_text().split()
    them = PathFilter.of(UPSTREAM["workflows"][UPSTREAM["jobs"][name]["workflow"]][event])
    us = PathFilter.of(workflow_of(name)["on"][event]["paths"])
    excused = PathFilter.of(entry["files"] for entry in EXPECTED["not_started_by"])
    started = [file for file in files if them.includes(file)]
    assert len(started) > 200
    assert [file for file in started if not us.includes(file) and not excused.includes(file)] == []


def test_every_excuse_is_needed() -> None:
    files = (DATA / "upstream_files.txt").read_text().split()
    lost = {
        file
        for name in JOBS
        for file in files
        if PathFilter.of(UPSTREAM["workflows"][UPSTREAM["jobs"][name]["workflow"]]["push"]).includes(file)
        and not PathFilter.of(workflow_of(name)["on"]["push"]["paths"]).includes(file)
    }
    for entry in EXPECTED["not_started_by"]:
        assert any(map(PathFilter.of([entry["files"]]).includes, lost)), entry["files"]


@pytest.mark.parametrize("name", JOBS)
def test_the_lock_file_starts_every_job_that_is_started_through_it(name: str) -> None:
    if "UV_RUN" in UPSTREAM["jobs"][name]["env"]:
        assert PathFilter.of(workflow_of(name)["on"]["push"]["paths"]).includes("uv.lock")
    assert PathFilter.of(workflow_of(name)["on"]["push"]["paths"]).includes("pyproject.toml")
