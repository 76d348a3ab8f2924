"""A change that loses coverage fails, by name; a waiver excuses it until its date."""

from __future__ import annotations

import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest

from ci.coverage.base import covered_at
from ci.coverage.check import LONGEST_WAIVER, coverage_problems
from ci.coverage.claims import covered
from ci.coverage.ledger import Ledger, load
from ci.errors import ConfigError
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.catalogue import load as load_catalogue

GENRM = ("reward/genrm_standalone_pool", "reward/custom_function", "reward/dapo_overlong", "layout/three_pools")


def with_waiver(directory: Path, until: date, capabilities: tuple[str, ...] = GENRM) -> Ledger:
    path = directory / "waivers.yaml"
    path.write_text(
        f"{path.read_text()}\nno_judge:\n  capabilities: [{', '.join(capabilities)}]\n  accelerator: cuda\n"
        f"  reason: no machine has three devices this month\n  owner: somebody\n  until: {until}\n"
    )
    return load(directory)


def without_genrm(catalogue: Catalogue) -> Catalogue:
    return {name: scenario for name, scenario in catalogue.items() if name != "genrm"}


def test_the_ledger_holds(catalogue: Catalogue, today: date) -> None:
    assert coverage_problems(catalogue, load(), today=today, before=covered(catalogue)) == []


def test_a_removed_scenario_is_missed_with_the_job_it_stood_for(catalogue: Catalogue, today: date) -> None:
    problems = coverage_problems(without_genrm(catalogue), load(), today=today, before=covered(catalogue))
    lost = [problem for problem in problems if "e2e_genrm" in problem]
    assert {problem.partition(" on ")[0] for problem in lost} == set(GENRM)
    judge = next(problem for problem in lost if problem.startswith("reward/genrm_standalone_pool"))
    assert "run_fully_async_policy_genrm.sh" in judge
    assert any(p.startswith("run_fully_async_policy_genrm.sh: reward/genrm_standalone_pool") for p in problems)


def test_a_waiver_excuses_it(catalogue: Catalogue, ledger_files: Path, today: date) -> None:
    ledger = with_waiver(ledger_files, today)
    assert coverage_problems(without_genrm(catalogue), ledger, today=today, before=covered(catalogue)) == []


def test_an_expired_waiver_does_not(catalogue: Catalogue, ledger_files: Path, today: date) -> None:
    ledger = with_waiver(ledger_files, today - timedelta(days=1))
    problems = coverage_problems(without_genrm(catalogue), ledger, today=today, before=covered(catalogue))
    assert any("waiver `no_judge`" in problem and "ran out on 2026-11-30" in problem for problem in problems)
    assert sum("e2e_genrm covered it" in problem for problem in problems) == len(GENRM)


def test_an_expired_waiver_fails_without_any_change(catalogue: Catalogue) -> None:
    problems = coverage_problems(catalogue, load(), today=date(2027, 4, 1))
    assert {problem.split("`")[1] for problem in problems} == set(load().waivers)
    assert all("ran out" in problem for problem in problems)


def test_a_waiver_ends_within_a_year(catalogue: Catalogue, ledger_files: Path, today: date) -> None:
    ledger = with_waiver(ledger_files, today + LONGEST_WAIVER + timedelta(days=1))
    problems = coverage_problems(without_genrm(catalogue), ledger, today=today)
    assert any("`no_judge`" in problem and "at most 366 days" in problem for problem in problems)


def test_a_waiver_of_what_is_covered_has_to_go(catalogue: Catalogue, ledger_files: Path, today: date) -> None:
    ledger = with_waiver(ledger_files, today, ("reward/custom_function",))
    problems = coverage_problems(catalogue, ledger, today=today)
    assert any("reward/custom_function is covered now, take it out" in problem for problem in problems)


def test_coverage_on_the_other_kind_of_device_does_not_count(catalogue: Catalogue, today: date) -> None:
    fewer = {name: scenario for name, scenario in catalogue.items() if not name.endswith("_ascend")}
    problems = coverage_problems(fewer, load(), today=today, before=covered(catalogue))
    assert any(problem.startswith("strategy/fsdp2 on npu: e2e_fsdp2_ascend covered it") for problem in problems)
    assert any(problem.startswith("e2e_fully_async_policy_megatron_ascend: strategy/megatron") for problem in problems)


@pytest.mark.parametrize(
    ("name", "claim", "complaint"),
    [
        ("sync", "mode/separate_async", "trainer.v1.trainer_mode is sync, not separate_async"),
        ("fsdp2", "strategy/megatron", "model_engine is not set, not megatron"),
        ("fsdp2", "weight_sync/hccl", "that is a matter of npu, and it runs on cuda"),
        ("fsdp2", "length/response_2048", "data.max_response_length is 512, not 2048"),
        ("fsdp2", "mode/separate_asynch", "did you mean `mode/separate_async`"),
    ],
)
def test_a_claim_that_the_configuration_does_not_bear_out_fails(
    catalogue: Catalogue, today: date, name: str, claim: str, complaint: str
) -> None:
    scenario = catalogue[name]
    catalogue[name] = scenario.model_copy(update={"covers": (*scenario.covers, claim)})
    problems = coverage_problems(catalogue, load(), today=today)
    assert any(problem.startswith(f"e2e_{name}") and complaint in problem for problem in problems)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("{scenario: fsdp2_ascend}", "{scenario: fsdp2_ascent}", "did you mean `fsdp2_ascend`"),
        ("knobs: {ROLLOUT_NAME: trtllm}", "knobs: {ROLLOUT_NAME: vllm}", "does not cover rollout/trtllm"),
        ("knobs: {ROLLOUT_NAME: trtllm}", "knobs: {ROLLOUT: trtllm}", "has no knob ROLLOUT"),
        ('knobs: {N_GPUS_TRAINING: "6"}', 'knobs: {N_GPUS_TRAINING: "5"}', "training has 5 devices"),
    ],
)
def test_a_line_to_cover_it_by_hand_has_to_cover_it(
    catalogue: Catalogue, ledger_files: Path, today: date, old: str, new: str, complaint: str
) -> None:
    path = ledger_files / "waivers.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    problems = coverage_problems(catalogue, load(ledger_files), today=today)
    assert any("by_hand" in problem and complaint in problem for problem in problems)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("retired", "async/partial_rollout", "async/partial_rolout", "did you mean `async/partial_rollout`"),
        ("retired", "hw/npu", "strategy/fsdp2", "has to name exactly one of hw/cuda, hw/npu"),
        ("waivers", "owner: code owners of verl/trainer", "", "owner: is required"),
        ("waivers", "until: 2027-03-31", "until: spring", "until: Input should be a valid date"),
        ("waivers", 'reason: "', 'why: "', "why: no such field"),
    ],
)
def test_a_ledger_that_is_wrong_says_where(ledger_files: Path, file: str, old: str, new: str, complaint: str) -> None:
    path = ledger_files / f"{file}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as error:
        load(ledger_files)
    assert complaint in str(error.value)


def git(root: Path, *words: str) -> None:
    subprocess.run(
        ("git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *words), check=True, capture_output=True
    )


def test_the_base_is_read_from_git(scenario_files: Path, today: date) -> None:
    root = scenario_files.parents[1]
    git(root, "init", "-q")
    git(root, "add", "ci")
    git(root, "commit", "-qm", "before")
    (scenario_files / "genrm.yaml").unlink()
    # a field that today's model does not know must not hide what was covered
    git(root, "commit", "-qam", "after")
    before = covered_at("HEAD~1", root=root)
    assert before == covered(load_catalogue())
    assert covered_at("HEAD", root=root).keys() < before.keys()
    problems = coverage_problems(load_catalogue(scenario_files), load(), today=today, before=before)
    assert any(problem.startswith("reward/genrm_standalone_pool on cuda") for problem in problems)


def test_a_base_with_another_model_is_still_read(scenario_files: Path) -> None:
    root = scenario_files.parents[1]
    (scenario_files / "genrm.yaml").write_text("accelerator: cuda\nformer_field: 1\ncovers: [reward/former]\n")
    git(root, "init", "-q")
    git(root, "add", "ci")
    git(root, "commit", "-qm", "before")
    assert covered_at("HEAD", root=root)["reward/former", "cuda"] == ("genrm",)


def test_a_base_that_git_does_not_know_fails(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(ConfigError, match="git knows no commit `origin/main`"):
        covered_at("origin/main", root=tmp_path)


def test_a_base_without_scenarios_covered_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "empty")
    assert covered_at("HEAD", root=tmp_path) == {}
