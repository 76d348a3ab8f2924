from __future__ import annotations

from pathlib import Path

import pytest

from ci.errors import ConfigError
from ci.images.lock import locked_images
from ci.images.policy import doubts, missing_capabilities
from ci.options import Options
from ci.plan import Plan
from ci.preflight.machine import machine_lines
from ci.scenarios.catalogue import load
from tests.unit.plans import IDENTITY, IMAGES, plan_of

ROOT = Path(__file__).parents[3]
TODAY = "1" * 12
CPU = IMAGES["cpu"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ()),
        ({"verified": False}, ("is not verified",)),
        ({"digest": None}, ("is not pinned",)),
        ({"digest": None, "verified": False}, ("is not pinned",)),
        ({"content_hash": "2" * 12}, (f"was pinned at {'2' * 12}, and what it is built from has changed to {TODAY}",)),
        ({"verified": False, "content_hash": "2" * 12}, ("is not verified", "has changed to")),
    ],
)
def test_names_what_speaks_against_an_image(changes: dict[str, object], expected: tuple[str, ...]) -> None:
    found = doubts(CPU.model_copy(update=changes), wanted=TODAY)
    assert len(found) == len(expected)
    for doubt, part in zip(found, expected, strict=True):
        assert part in doubt.what
        assert "`inv images.build cpu`" in doubt.mend


@pytest.mark.parametrize(("is_ci", "state"), [(True, "failed"), (False, "warning")])
def test_a_doubt_refuses_a_run_under_ci_alone(is_ci: bool, state: str, tmp_path: Path) -> None:
    unpinned = CPU.model_copy(update={"digest": None})
    images = IMAGES | {"cpu": unpinned.model_copy(update={"doubts": doubts(unpinned, wanted=TODAY)})}
    environment = {"CI": "true"} if is_ci else {}
    plan = plan_of("fsdp2", Options(target="cpu", engine="docker"), images=images, environment=environment)
    (line,) = (line for line in machine_lines(plan, (), required=True, runs=tmp_path) if "not pinned" in line.detail)
    assert (line.state, line.failure_class) == (state, "image")
    assert "`inv images.pin cpu`" in line.hint


def test_every_scenario_fits_its_image() -> None:
    images = locked_images(ROOT)
    for scenario in load().values():
        assert missing_capabilities(scenario.needs, images[scenario.image]) == ()


def test_a_pair_that_does_not_fit_is_refused_with_one_that_does() -> None:
    with pytest.raises(
        ConfigError, match="e2e_megatron needs vllm, megatron, which the image cpu does not have"
    ) as caught:
        plan_of("megatron", Options(target="cuda", image="cpu"))
    assert "the scenario's own image is cuda" in str(caught.value.hint)


def _inside(name: str, content_hash: str) -> Plan:
    identity = IDENTITY.model_copy(update={"name": name, "content_hash": content_hash})
    return plan_of("fsdp2", machine="cuda", inside=identity)


def test_a_machine_started_from_the_locks_image_runs_that_image() -> None:
    assert _inside("cuda", TODAY).image == IMAGES["cuda"]


def test_a_machine_started_from_another_build_is_in_doubt() -> None:
    plan = _inside("cuda", "3" * 12)
    assert plan.image is not None
    (doubt,) = plan.image.doubts
    assert "started from cuda with the content 333333333333; the lock has 111111111111" in doubt.what
    assert IMAGES["cuda"].reference in doubt.mend
    assert not plan.image.verified


def test_a_machine_started_from_an_unknown_image_lacks_everything() -> None:
    with pytest.raises(ConfigError, match="needs vllm, fsdp, which the image mine does not have"):
        _inside("mine", TODAY)
