"""The catalogue says what is wrong with it, all at once, and what would be right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.options import Options
from ci.scenarios.catalogue import SCHEMA, load, scenario_called, schema_text
from ci.scenarios.documents import DIRECTORY, scenario_names, summaries
from tests.unit.plans import plan_of

SCENARIOS = {"fsdp2", "megatron", "opd", "genrm", "disrm", "fsdp2_ascend", "megatron_ascend", "colocate_async", "sync"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(DIRECTORY, tmp_path / "scenarios", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    )


def problems_of(directory: Path) -> str:
    load.cache_clear()
    with pytest.raises(ConfigError) as error:
        load(directory)
    return str(error.value)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_scenario_is_there_and_valid() -> None:
    assert set(load()) == SCENARIOS == set(scenario_names())


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_scenario_has_a_plan_for_its_accelerator(name: str) -> None:
    target = load()[name].accelerator
    plan = plan_of(name, Options(target=target))
    assert plan.target == target
    assert plan.devices == plan.layout.devices
    assert plan.time_limit_s > plan.stall_limit_s > 0
    assert not [word for word in (*plan.overrides, *plan.environment.values()) if "${" in word]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_on_the_cpu_a_scenario_is_rehearsed_or_says_why_not(name: str) -> None:
    plan = plan_of(name, Options(target="cpu"))
    assert plan.rehearsal != bool(plan.preflight_only)
    assert plan.rehearsal == (name in {"fsdp2", "colocate_async", "sync"})


def test_the_schema_is_the_models() -> None:
    assert SCHEMA.read_text() == schema_text(), "run `inv scenarios.schema`"


def test_every_file_names_the_schema() -> None:
    for name in scenario_names():
        assert (
            (DIRECTORY / f"{name}.yaml")
            .read_text()
            .startswith("# yaml-language-server: $schema=scenario.schema.json\n")
        )


def test_the_schema_describes_what_a_scenario_may_say() -> None:
    schema = json.loads(SCHEMA.read_text())
    assert {"extends", "knobs", "overrides", "checks", "limits"} <= set(schema["properties"])


def test_summaries_are_the_catalogues() -> None:
    assert dict(summaries()) == {name: scenario.summary for name, scenario in load().items()}


def test_all_problems_of_all_files_are_told_at_once(copy: Path) -> None:
    replace(copy / "fsdp2.yaml", "accelerator: cuda", "accelerator: gpu")
    replace(copy / "sync.yaml", "cadence: nightly", "cadense: nightly")
    replace(copy / "bases/megatron.yaml", "default: 2", "defualt: 2")
    text = problems_of(copy)
    assert "fsdp2.yaml: accelerator: `gpu` is not one of 'cuda' or 'npu'" in text
    assert "sync.yaml: cadense: no such field; did you mean `cadence`?" in text
    assert "sync.yaml: cadence: is required" in text
    assert "bases/megatron.yaml: knobs.TRAIN_TP.defualt: no such field; did you mean `default`?" in text


def test_a_typo_inside_a_check_is_found_where_it_is(copy: Path) -> None:
    replace(copy / "bases/separate_async.yaml", "at_most: 8", "at_mots: 8")
    assert (
        "bases/separate_async.yaml: checks.staleness.metric.at_mots: no such field; did you mean `at_most`?"
        in problems_of(copy)
    )


def test_a_check_that_cannot_fail_is_refused(copy: Path) -> None:
    replace(copy / "bases/separate_async.yaml", "    at_most: 8\n", "")
    assert "without a bound it cannot fail" in problems_of(copy)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "extends: [separate_async, fsdp2]",
            "extends: [separate_asink, fsdp2]",
            "no base `separate_asink`; did you mean `separate_async`?",
        ),
        ("extends: [separate_async, fsdp2]", "extends: separate_async", "has to be a list"),
        ("accelerator: cuda", "accelerator: cuda\naccelerator: npu", "fsdp2.yaml:5:1: `accelerator` is given twice"),
        ("covers:\n  [", "covers:\n  [[", "fsdp2.yaml:"),
        ("triggers:", "triggers: []\nunused:", "fsdp2.yaml: triggers:"),
    ],
)
def test_a_broken_file_is_named(copy: Path, old: str, new: str, message: str) -> None:
    replace(copy / "fsdp2.yaml", old, new)
    assert message in problems_of(copy)


def test_bases_that_extend_each_other_in_a_circle_are_found(copy: Path) -> None:
    replace(copy / "bases/v1.yaml", "environment:", "extends: [separate_async]\nenvironment:")
    assert "`extends` goes in a circle" in problems_of(copy)


def test_an_unknown_scenario_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean `fsdp2`\?"):
        scenario_called("e2e_fsdp", load())
