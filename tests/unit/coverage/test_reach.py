"""Every scenario is started by exactly one job, and can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.coverage.reach import can_fail, reach_problems
from ci.scenarios.catalogue import Catalogue
from ci.scenarios.model import CheckDeclaration, FiniteCheck, MetricCheck, StepsCheck, WeightSyncsCheck


@pytest.fixture
def workflows(tmp_path: Path, catalogue: Catalogue) -> Path:
    lines = (f"      - run: exec nox -s e2e_{name} -- --target cuda\n" for name in catalogue)
    (tmp_path / "e2e.yml").write_text("".join(lines))
    return tmp_path


def test_one_job_each_is_right(catalogue: Catalogue, workflows: Path) -> None:
    assert reach_problems(catalogue, workflows) == []


def test_a_scenario_that_nothing_starts_is_named(catalogue: Catalogue, workflows: Path) -> None:
    path = workflows / "e2e.yml"
    path.write_text(path.read_text().replace("e2e_fsdp2 ", "e2e_fsdp2_ascend "))
    problems = reach_problems(catalogue, workflows)
    assert problems[0].startswith("e2e_fsdp2: no workflow starts it")
    assert problems[1] == "e2e_fsdp2_ascend: started 2 times, in e2e.yml; once is right"


def test_a_scenario_without_a_check_that_can_fail_is_named(catalogue: Catalogue, workflows: Path) -> None:
    checks = {"steps": StepsCheck(kind="steps", at_least="${subtract:${TOTAL_TRAINING_STEPS},2}")}
    catalogue["sync"] = catalogue["sync"].model_copy(update={"checks": checks})
    assert reach_problems(catalogue, workflows) == ["e2e_sync: no check of it can fail: steps"]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (StepsCheck(kind="steps", at_least=0), False),
        (StepsCheck(kind="steps", at_least="1"), True),
        (WeightSyncsCheck(kind="weight_syncs", at_least=0), False),
        (FiniteCheck(kind="finite"), True),
        (MetricCheck(kind="metric", metric="loss", at_most=1, because="it learns"), True),
    ],
)
def test_what_can_fail(check: CheckDeclaration, expected: bool) -> None:
    assert can_fail(check) is expected
