"""Settings that do not fit say what does not, and what would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ci.errors import ConfigError
from ci.scenarios.catalogue import load
from ci.workflows.generate import generated
from ci.workflows.settings import DIRECTORY, Settings, load_pins, load_settings
from tests.unit.generation.conftest import workflows_of
from tests.unit.plans import IMAGES


def changed(settings: Settings, **fields: Any) -> Settings:
    return Settings.model_validate(settings.model_dump() | fields)


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ({"e2e_both": ("fsdp2", "fsdp3")}, "e2e_both: no scenario is called `fsdp3`"),
        ({"e2e_a": ("fsdp2",), "e2e_b": ("fsdp2",)}, "e2e_b: `fsdp2` is in e2e_a already"),
        ({"e2e_both": ("fsdp2", "fsdp2_ascend")}, "e2e_both: one machine, but accelerator is cuda and npu"),
        ({"e2e_both": ("fsdp2", "sync")}, "e2e_both: one machine, but cadence is nightly and pull_request"),
        ({"e2e_both": ("fsdp2", "opd")}, "e2e_both: with `!` in their triggers"),
    ],
)
def test_scenarios_that_cannot_share_a_machine(
    settings: Settings, groups: dict[str, tuple[str, ...]], complaint: str
) -> None:
    with pytest.raises(ConfigError) as error:
        generated(load(), changed(settings, shared_machines=groups), load_pins(), IMAGES)
    assert complaint in str(error.value)


def test_an_image_that_nothing_stands_in_for(settings: Settings) -> None:
    with pytest.raises(ConfigError, match=r"image `ascend` is not pinned.*\n.*inv images.pin ascend"):
        generated(load(), changed(settings, unpinned_images={"cuda": "somewhere/cuda:1"}), load_pins(), {})


def test_an_image_without_a_digest_is_stood_in_for_and_says_so(settings: Settings) -> None:
    texts = generated(load(), settings, load_pins(), {})
    lines = [line.strip() for line in texts[".github/workflows/e2e_separate_async_ascend.yml"].splitlines()]
    (image,) = {line for line in lines if line.startswith("image: ")}
    assert "latest-vllm-a3-ubuntu # zizmor: ignore[unpinned-images] until `inv images.pin ascend`" in image


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("suite: {}", "suite: {repository: a/b}", "name the other one alone"),
        ("suite: {}", "suite: {repository: a}", "suite.repository: String should match"),
        ("margin_minutes: 5", "margin_minutes: 0", "margin_minutes: Input should be greater than or equal to 1"),
        ("kind: elastic", "kind: rented", "machines.cuda.kind: `rented` is not one of 'elastic', 'fixed'"),
        ("retention_days: 14", "retention_days: 14\nretention_days: 7", "`retention_days` is given twice"),
        ("retention_days: 14", "retention_day: 14", "retention_day: no such field; did you mean `retention_days`"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = (DIRECTORY / "settings.yaml").read_text()
    assert old in text
    (tmp_path / "settings.yaml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        load_settings(tmp_path / "settings.yaml")


@pytest.mark.parametrize(
    "pin", ["{version: v1}", "{version: v1, commit: abc}", f"{{version: v1, commit: {'0' * 40}, unpinned: why}}"]
)
def test_a_pin_is_a_commit_or_a_reason(tmp_path: Path, pin: str) -> None:
    (tmp_path / "pins.yaml").write_text(f"actions/checkout: {pin}\n")
    with pytest.raises(ConfigError, match=r"pins\.yaml is not valid"):
        load_pins(tmp_path / "pins.yaml")


def test_in_verls_repository_the_suite_is_what_is_named(settings: Settings) -> None:
    suite = {"repository": "somebody/suite", "ref": "0" * 40}
    workflows = workflows_of(generated(load(), changed(settings, suite=suite, verl={}), load_pins(), IMAGES))
    assert "suite" not in workflows
    workflow = workflows["e2e_opd"]
    assert workflow["on"]["workflow_dispatch"] is None
    first, second, *_ = workflow["jobs"]["e2e_opd"]["steps"]
    assert first["with"] == {"persist-credentials": False, "repository": "somebody/suite", "ref": "0" * 40}
    assert second["with"] == {"persist-credentials": False, "path": "verl"}
    assert "containers/images.lock" not in workflow["on"]["push"]["paths"]
    assert ".github/workflows/e2e_opd.yml" in workflow["on"]["push"]["paths"]


def test_among_verls_files_one_checkout_has_both(settings: Settings) -> None:
    workflows = workflows_of(generated(load(), changed(settings, verl={}), load_pins(), IMAGES))
    workflow = workflows["e2e_opd"]
    checkouts = [s["with"] for s in workflow["jobs"]["e2e_opd"]["steps"] if "checkout" in s.get("uses", "")]
    assert checkouts == [{"persist-credentials": False}]
    assert {"uv.lock", "containers/images.lock"} <= set(workflow["on"]["push"]["paths"])


def test_by_label_a_pull_request_asks_for_it(settings: Settings) -> None:
    catalogue = load() | {"genrm": load()["genrm"].model_copy(update={"cadence": "label"})}
    workflow = workflows_of(generated(catalogue, settings, load_pins(), IMAGES))["e2e_genrm"]
    assert "labeled" in workflow["on"]["pull_request"]["types"]
    assert "paths" not in workflow["on"]["pull_request"]
    asked = "contains(github.event.pull_request.labels.*.name, 'e2e_genrm')"
    assert asked in workflow["jobs"]["e2e_genrm_machine"]["if"]
