"""The generated workflows hold what every job of this project has to hold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from invoke.collection import Collection

from ci.coverage import tasks as coverage
from ci.images import tasks as images
from ci.images.lock import locked_images
from ci.scenarios import tasks as scenarios
from ci.scenarios.catalogue import load
from ci.workflows import tasks as generation
from ci.workflows.generate import ROOT, current, differences, generated, stale
from ci.workflows.paths import PathFilter
from ci.workflows.settings import Settings, load_pins
from tests.unit.generation.conftest import jobs_in, workflows_of

SCENARIO_COMMAND = re.compile(r"nox -s e2e_\w+")


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@pytest.fixture(scope="session", params=["pinned images", "the lock of today", "in verl's repository"])
def folder(
    request: pytest.FixtureRequest, texts: dict[str, str], settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    match request.param:
        case "the lock of today":
            texts = current()
        case "in verl's repository":
            suite = {"repository": "somebody/suite", "ref": "0" * 40}
            moved = Settings.model_validate(settings.model_dump() | {"suite": suite, "verl": {}})
            texts = generated(load(), moved, load_pins(), locked_images(ROOT))
    folder = tmp_path_factory.mktemp("generated")
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_githubs_schema_takes_them(folder: Path) -> None:
    files = map(str, (folder / ".github" / "workflows").iterdir())
    done = subprocess.run(
        (tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing_without_a_written_reason(folder: Path) -> None:
    command = (tool("zizmor"), "--offline", "--no-config", "--persona", "auditor", "--format", "json", ".")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)
    assert [finding for finding in findings if not finding["ignored"]] == []
    assert done.returncode == 0, done.stderr
    ignored = [line for path in folder.rglob("*.yml") for line in path.read_text().splitlines() if "ignore[" in line]
    assert all(len(line.partition("ignore[")[2].partition("] ")[2].split()) > 3 for line in ignored)
    assert ignored


def test_the_workflows_on_disk_are_these() -> None:
    assert list(differences(current(), ROOT)) == []


def test_each_scenario_has_one_job_with_one_line(workflows: dict[str, Any]) -> None:
    lines: dict[str, list[str]] = {}
    for _, name, job in jobs_in(workflows):
        runs = [step["run"] for step in job.get("steps", []) if SCENARIO_COMMAND.search(step.get("run", ""))]
        assert len(runs) == (1 if name.removeprefix("e2e_") in load() else 0)
        if runs:
            lines[name] = runs
    expected = {
        f"e2e_{name}": [f"exec nox -s e2e_{name} -- --target {scenario.accelerator}"]
        for name, scenario in load().items()
    }
    assert lines == expected


def test_every_job_has_a_name_of_its_own(workflows: dict[str, Any]) -> None:
    names = [name for _, name, _ in jobs_in(workflows)]
    shown = [job["name"] for _, _, job in jobs_in(workflows)]
    assert [name for name, count in (Counter(names) + Counter(shown)).items() if count > 2] == []


def test_every_job_that_runs_has_a_time_limit_over_the_scenarios_own(workflows: dict[str, Any]) -> None:
    for _, name, job in jobs_in(workflows):
        if "steps" in job:
            limit = job["timeout-minutes"]
            if scenario := load().get(name.removeprefix("e2e_")):
                assert 5 <= limit - scenario.limits.time_minutes < 6
            assert limit <= 60


def test_permissions_are_the_least_and_no_token_stays(workflows: dict[str, Any]) -> None:
    for workflow in workflows.values():
        assert workflow["permissions"] == {}
    for _, _, job in jobs_in(workflows):
        checkouts = [step for step in job.get("steps", []) if step.get("uses", "").startswith("actions/checkout@")]
        assert job["permissions"] == ({"contents": "read"} if checkouts else {})
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_actions_are_pinned_by_commit_or_say_why_not(texts: dict[str, str]) -> None:
    used = {line.strip() for text in texts.values() for line in text.splitlines() if "uses: " in line}
    unpinned = {line for line in used if not re.search(r"@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$", line)}
    assert {line.partition("uses: ")[2].split()[0] for line in unpinned} == {
        "./.github/workflows/e2e_on_elastic_machine.yml",
        "volcengine/vemlp-github-runner@v1",
    }


def test_no_script_holds_an_expression(workflows: dict[str, Any]) -> None:
    for _, _, job in jobs_in(workflows):
        assert not [step["run"] for step in job.get("steps", []) if "${{" in step.get("run", "")]


def test_every_script_stops_at_its_first_error(workflows: dict[str, Any]) -> None:
    for workflow in workflows.values():
        if any("run" in step for job in workflow["jobs"].values() for step in job.get("steps", [])):
            assert workflow["defaults"]["run"]["shell"] == "bash"  # which GitHub starts with -e and -o pipefail


def test_what_has_to_happen_afterwards_always_does(workflows: dict[str, Any]) -> None:
    for _, name, job in jobs_in(workflows):
        if name.removeprefix("e2e_") not in load():
            continue
        steps = job["steps"]
        test = next(index for index, step in enumerate(steps) if SCENARIO_COMMAND.search(step.get("run", "")))
        after = steps[test + 1 :]
        assert [step["name"] for step in after] == ["Report", "Reap what is left over", "Keep the run"]
        assert all(step["if"] == "always()" for step in after)


def test_an_elastic_machine_is_always_destroyed(workflows: dict[str, Any]) -> None:
    elastic = {name: w for name, w in workflows.items() if any("machine" in job for job in w["jobs"])}
    del elastic["e2e_on_elastic_machine"]
    assert set(elastic) == {"e2e_separate_async", "e2e_opd", "e2e_disrm", "e2e_genrm", "e2e_colocated"}
    for name, workflow in elastic.items():
        *others, last = workflow["jobs"]
        destroy = workflow["jobs"][last]
        assert destroy["with"] == {"mode": "destroy", "task": f"${{{{ needs.{name}_machine.outputs.task }}}}"}
        assert sorted(destroy["needs"]) == sorted(others)
        assert destroy["if"] == f"${{{{ always() && needs.{name}_machine.result != 'skipped' }}}}"
        create = workflow["jobs"][f"{name}_machine"]
        assert create["with"]["image"].startswith("registry.invalid/verl-e2e/cuda@sha256:")
    called = workflows["e2e_on_elastic_machine"]["jobs"]["e2e_on_elastic_machine_destroy"]
    assert called["if"] == "${{ always() && inputs.mode == 'destroy' }}"


def test_scenarios_on_one_machine_follow_one_another(workflows: dict[str, Any]) -> None:
    jobs = workflows["e2e_separate_async"]["jobs"]
    assert jobs["e2e_fsdp2"]["needs"] == ["e2e_separate_async_machine"]
    assert jobs["e2e_megatron"]["needs"] == ["e2e_separate_async_machine", "e2e_fsdp2"]
    assert jobs["e2e_fsdp2"]["runs-on"] == jobs["e2e_megatron"]["runs-on"]
    ascend = workflows["e2e_separate_async_ascend"]["jobs"]
    assert ascend["e2e_megatron_ascend"]["needs"] == ["e2e_fsdp2_ascend"]


def test_an_ascend_job_is_a_container_by_digest_with_its_shared_memory(workflows: dict[str, Any]) -> None:
    for job in workflows["e2e_separate_async_ascend"]["jobs"].values():
        assert re.fullmatch(r"registry\.invalid/verl-e2e/ascend@sha256:[0-9a-f]{64}", job["container"]["image"])
        assert job["container"]["options"] == "--shm-size 16g"


def test_newer_pushes_cancel_older_ones_but_never_a_branch(workflows: dict[str, Any]) -> None:
    for name, workflow in workflows.items():
        if name == "e2e_on_elastic_machine":
            continue
        assert workflow["concurrency"] == {
            "group": "${{ github.workflow }}-${{ github.event.pull_request.number || github.run_id }}",
            "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
        }


def test_each_cadence_starts_as_it_says(workflows: dict[str, Any]) -> None:
    assert set(workflows["e2e_separate_async"]["on"]) == {"workflow_dispatch", "push", "pull_request"}
    nightly = workflows["e2e_genrm"]["on"]
    assert set(nightly) == {"workflow_dispatch", "schedule", "pull_request"}
    assert not PathFilter.of(nightly["pull_request"]["paths"]).includes("verl/trainer/main_ppo.py")
    crons = [w["on"]["schedule"][0]["cron"] for w in workflows.values() if "schedule" in w["on"]]
    assert len(set(crons)) == len(crons)


@pytest.mark.parametrize(
    "file",
    [
        "ci/scenarios/NAME.yaml",
        "ci/scenarios/bases/v1.yaml",
        "containers/images.lock",
        "containers/IMAGE/Dockerfile",
        ".github/workflows/WORKFLOW.yml",
    ],
)
def test_a_change_of_what_decides_a_run_starts_it(workflows: dict[str, Any], file: str) -> None:
    for workflow, name, _ in jobs_in(workflows):
        if (bare := name.removeprefix("e2e_")) in load():
            path = file.replace("NAME", bare).replace("IMAGE", load()[bare].image).replace("WORKFLOW", workflow)
            assert PathFilter.of(workflows[workflow]["on"]["pull_request"]["paths"]).includes(path), name


def test_a_workflow_starts_whenever_one_of_its_scenarios_would(workflows: dict[str, Any]) -> None:
    files = (Path(__file__).parents[2] / "data" / "upstream_files.txt").read_text().split()
    for workflow, name, _ in jobs_in(workflows):
        scenario = load().get(name.removeprefix("e2e_"))
        if scenario is not None and scenario.cadence == "pull_request":
            starts = PathFilter.of(workflows[workflow]["on"]["pull_request"]["paths"])
            wanted = PathFilter.of(scenario.triggers)
            assert any(map(wanted.includes, files))
            assert [file for file in files if wanted.includes(file) and not starts.includes(file)] == []


def test_forks_start_no_machine(workflows: dict[str, Any]) -> None:
    for _, name, job in jobs_in(workflows):
        if not job.get("needs") and name not in {"suite_tests", "suite_data"} and "on_elastic" not in name:
            assert "github.repository_owner == 'verl-project'" in job["if"]


def test_the_suites_own_tests_run_on_every_change(workflows: dict[str, Any]) -> None:
    suite = workflows["suite"]
    assert suite["on"]["pull_request"] is None
    runs = [step.get("run", "") for job in suite["jobs"].values() for step in job["steps"]]
    for task in ("workflows.check", "scenarios.check", "scenarios.budget", "coverage.check --base", ".ci/run"):
        assert any(task in run for run in runs), task


def test_the_tasks_that_are_called_exist(workflows: dict[str, Any]) -> None:
    runs = "\n".join(step.get("run", "") for _, _, job in jobs_in(workflows) for step in job.get("steps", []))
    called = set(re.findall(r"bin/inv (\S+[a-z])", runs))
    assert len(called) == 7
    tasks = Collection(coverage.namespace, images.namespace, scenarios.namespace, generation.namespace)
    assert called <= set(tasks.task_names)


def test_what_is_generated_no_more_is_taken_away(tmp_path: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert list(differences(texts, tmp_path)) == []
    path = ".github/workflows/e2e_genrm.yml"
    fewer = {name: text for name, text in texts.items() if name != path}
    (tmp_path / ".github/workflows/by_hand.yml").write_text("name: by_hand\n")
    assert stale(fewer, tmp_path) == (path,)
    assert list(differences(fewer, tmp_path)) == [f"{path}: was generated for something that is no more"]
    (tmp_path / path).write_text(texts[path].replace("timeout-minutes: 45", "timeout-minutes: 450"))
    (line,) = differences(texts, tmp_path)
    number = texts[path].splitlines().index("    timeout-minutes: 45") + 1
    assert line == f"{path}: differs, first in line {number}"
    (tmp_path / path).unlink()
    assert list(differences(texts, tmp_path)) == [f"{path}: is missing"]


def test_the_header_names_the_command(texts: dict[str, str]) -> None:
    assert all("`inv workflows.generate`" in text.splitlines()[0] for text in texts.values())
    labels = yaml.safe_load(texts[".github/actionlint.yaml"])["self-hosted-runner"]["labels"]
    assert labels == ["linux-aarch64-a3-8"]


def test_quarantine_runs_and_does_not_block(settings: Settings) -> None:
    fields = {"reason": "hangs in one of four runs", "link": "https://example.org/1", "owner": "somebody"}
    declared = load()["fsdp2"].model_dump() | {"quarantine": fields | {"until": "2999-01-01"}}
    catalogue = load() | {"fsdp2": type(load()["fsdp2"]).model_validate(declared)}
    job = workflows_of(generated(catalogue, settings, load_pins(), {}))["e2e_separate_async"]["jobs"]["e2e_fsdp2"]
    assert job["continue-on-error"] is True
    assert job["name"] == "e2e_fsdp2 (in quarantine until 2999-01-01)"
    assert any(step.get("run") == "exec nox -s e2e_fsdp2 -- --target cuda" for step in job["steps"])


def test_the_gate_blocks_and_the_rest_informs(workflows: dict[str, Any]) -> None:
    for _, name, job in jobs_in(workflows):
        if scenario := load().get(name.removeprefix("e2e_")):
            informs = "${{ github.event_name == 'pull_request' }}"
            assert job.get("continue-on-error") == (informs if scenario.tier == "extended" else None)
