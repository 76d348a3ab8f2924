"""What the scenarios take in a week follows from limits, layouts and cadence, and stays within the budget."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from ci.errors import ConfigError
from ci.scenarios.budget.budget import DATA, Budget, budget_problems, costs, load_budget, print_costs, totals
from ci.scenarios.catalogue import Catalogue, load
from ci.scenarios.model import Accelerator

MACHINES: dict[Accelerator, int] = {"cuda": 8, "npu": 8}
BUDGET = Budget(
    runs_per_week={"pull_request": 10, "nightly": 7, "weekly": 1, "label": 2},
    device_hours_per_week={"gate": {"cuda": 1000, "npu": 1000}, "extended": {"cuda": 24}},
)


def changed(name: str, **fields: object) -> Catalogue:
    return load() | {name: load()[name].model_copy(update=fields)}


def test_todays_scenarios_stay_within_the_budget() -> None:
    assert budget_problems(costs(load(), load_budget(), MACHINES), load_budget()) == []


def test_the_cost_follows_from_limit_layout_and_cadence() -> None:
    found = {cost.scenario: cost for cost in costs(load(), BUDGET, MACHINES)}
    assert found["fsdp2"].device_hours == pytest.approx(8 * 55 / 60 * 10)
    assert found["opd"].device_hours == pytest.approx(8 * 27 / 60 * 10)
    assert found["genrm"].device_hours == pytest.approx(3 * 40 / 60 * 7)
    assert found["genrm"].held_hours == pytest.approx(8 * 40 / 60 * 7)
    assert found["sync"].devices == 1
    npu = found["fsdp2_ascend"].device_hours + found["megatron_ascend"].device_hours
    assert totals(tuple(found.values()))["gate", "npu"] == pytest.approx(npu)


def test_another_cadence_costs_more_than_is_given() -> None:
    found = costs(changed("genrm", cadence="pull_request"), BUDGET, MACHINES)
    (problem,) = budget_problems(found, BUDGET)
    assert problem.startswith("extended on cuda: 26 device-hours a week, 24 are given")
    assert "most go to e2e_genrm (20)" in problem


def test_a_tier_without_a_budget_has_none() -> None:
    (problem,) = budget_problems(costs(changed("fsdp2_ascend", tier="extended"), BUDGET, MACHINES), BUDGET)
    assert problem.startswith("extended on npu: 73 device-hours a week, 0 are given")


def test_a_scenario_has_to_fit_a_machine() -> None:
    problems = budget_problems(costs(load(), BUDGET, {"cuda": 2, "npu": 8}), BUDGET)
    assert "e2e_genrm needs 3 devices, and a machine has 2" in problems
    assert not [problem for problem in problems if problem.startswith("e2e_disrm")]


def test_the_table_shows_each_scenario_and_tier() -> None:
    shown = io.StringIO()
    print_costs(costs(load(), BUDGET, MACHINES), BUDGET, Console(file=shown, width=200))
    text = shown.getvalue()
    assert all(f"e2e_{name} " in text for name in load())
    assert "extended on cuda: 20 of 24 device-hours a week" in text


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("  label: 5\n", "", "runs_per_week has to name every cadence"),
        ("nightly: 7", "nightly: often", "runs_per_week.nightly: Input should be a valid number"),
        ("gate: {", "gates: {", "device_hours_per_week.gates"),
        ("weekly: 1", "weekly: 1\n  weekly: 2", "`weekly` is given twice"),
    ],
)
def test_a_budget_that_is_wrong_says_where(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = DATA.read_text()
    assert old in text
    (tmp_path / "budget.yaml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        load_budget(tmp_path / "budget.yaml")
