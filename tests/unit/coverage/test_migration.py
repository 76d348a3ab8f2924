"""No part of the retired jobs is left without an answer."""

from __future__ import annotations

import io
from datetime import date
from html.parser import HTMLParser

import pytest
from rich.console import Console

from ci.coverage.ledger import load
from ci.coverage.migration import answers, gaps
from ci.coverage.page import page
from ci.coverage.report import print_coverage, print_migration
from ci.scenarios.catalogue import Catalogue


def test_the_eleven_jobs_and_the_script_are_there() -> None:
    jobs = load().retired.jobs
    assert len([name for name in jobs if not name.endswith(".sh")]) == 11
    assert [name for name in jobs if name.endswith(".sh")] == ["run_fully_async_policy_genrm.sh"]


def test_every_part_is_answered(catalogue: Catalogue, today: date) -> None:
    ledger = load()
    found = answers(catalogue, ledger, today=today)
    parts = {(name, capability) for name, job in ledger.retired.jobs.items() for capability in job.covers}
    assert {(answer.job, answer.part[0]) for answer in found} == parts
    assert {answer.state for answer in found} == {"covered", "waived"}
    for answer in found:
        accelerator = ledger.retired.jobs[answer.job].accelerator
        assert all(catalogue[name].accelerator == accelerator for name in answer.scenarios)
        assert bool(answer.scenarios) != bool(answer.waiver)


@pytest.mark.parametrize(
    "capability",
    [
        "rollout/trtllm", "rollout/abort", "mode/one_step_off", "layout/uneven_6_2", "megatron/pp3", "fsdp/ulysses_sp2",
        "async/partial_rollout", "async/staleness_fraction", "megatron/offload", "length/response_2048",
    ],
)  # fmt: skip
def test_what_is_open_is_waived_with_an_owner_and_a_date(catalogue: Catalogue, today: date, capability: str) -> None:
    waived = [a for a in answers(catalogue, load(), today=today) if a.part[0] == capability and a.state == "waived"]
    assert waived
    assert all(answer.owner and answer.until and answer.because for answer in waived)


def test_a_job_is_answered_by_the_scenario_in_its_place(catalogue: Catalogue, today: date) -> None:
    found = {(a.job, a.part[0]): a for a in answers(catalogue, load(), today=today)}
    assert found["e2e_fully_async_policy_megatron", "mode/fully_async"].scenarios == ("megatron",)
    assert found["e2e_fully_async_policy_megatron", "mode/fully_async"].successor == "mode/separate_async"
    assert found["e2e_fully_async_policy_fsdp2", "reward/dapo_overlong"].scenarios == ("genrm",)


def test_what_was_never_covered_is_listed_apart(catalogue: Catalogue) -> None:
    assert {gap.name: gap.scenarios for gap in gaps(catalogue, load())}.keys() == load().retired.never_covered.keys()
    fsdp2 = catalogue["fsdp2"]
    catalogue["fsdp2"] = fsdp2.model_copy(update={"covers": ("mode/separate_async", "rollout/sglang")})
    found = {gap.name: gap.scenarios for gap in gaps(catalogue, load())}
    assert found["separate_async with SGLang or TensorRT-LLM"] == ("fsdp2",)
    assert found["hybrid_rollout.enable_switch"] == ()


def test_the_report_shows_jobs_waivers_and_totals(catalogue: Catalogue, today: date) -> None:
    shown = io.StringIO()
    print_migration(catalogue, load(), Console(file=shown, width=400), today=today)
    text = shown.getvalue()
    for name in load().retired.jobs:
        assert f"\n{name}" in text
    assert "by hand: N_GPUS_TRAINING=6 nox -s e2e_megatron -- --target cuda\n" in text
    assert "by hand: N_GPUS_TRAINING=6 N_GPUS_ROLLOUT=2 nox -s e2e_megatron_ascend -- --target npu\n" in text
    assert "hybrid_rollout.enable_switch: still by none" in text
    assert "12 retired jobs and scripts, 103 parts: " in text
    assert " 0 expired, 0 open" in text


def test_the_table_shows_every_capability(catalogue: Catalogue) -> None:
    shown = io.StringIO()
    print_coverage(catalogue, load(), Console(file=shown, width=400))
    assert all(capability in shown.getvalue() for capability in load().capabilities)


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.classes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.classes.append(dict(attrs).get("class") or "")


def test_the_page_marks_each_claim_and_escapes(catalogue: Catalogue, today: date) -> None:
    text = page(catalogue, load(), today=today)
    cells = Cells()
    cells.feed(text)
    matrix, _, _ = text.partition("<h2>")
    assert matrix.count("<td class=yes>") == sum(len(scenario.covers) for scenario in catalogue.values())
    assert cells.classes.count("waived") > len(load().waivers)
    assert "http" not in text.partition("</style>")[0]
    assert "mode of this name; a weight sync" in text
