from __future__ import annotations

from pathlib import Path

import pytest

from ci.images.policy import missing_capabilities, problems
from ci.images.specification import specification_called, specifications
from ci.plan import Image
from ci.scenarios.catalogue import load

ROOT = Path(__file__).parents[3]
DIGEST = f"sha256:{'1' * 64}"


@pytest.mark.parametrize(
    ("digest", "verified", "expected"),
    [
        (DIGEST, True, ()),
        (DIGEST, False, ("is not verified",)),
        (None, True, ("is not pinned",)),
        (None, False, ("is not pinned", "is not verified")),
    ],
)
@pytest.mark.parametrize("is_ci", [True, False])
def test_names_what_speaks_against_an_image(
    digest: str | None, verified: bool, expected: tuple[str, ...], is_ci: bool
) -> None:
    found = problems(Image(name="cpu", reference="verl-e2e/cpu:1", digest=digest, verified=verified), is_ci=is_ci)
    assert len(found) == len(expected)
    for problem, part in zip(found, expected, strict=True):
        assert part in problem
        assert "`inv images." in problem
        assert problem.startswith("refused under CI") == is_ci


def test_every_scenario_fits_its_image() -> None:
    known = specifications(ROOT)
    for scenario in load().values():
        assert missing_capabilities(scenario.needs, known[scenario.image]) == ()


def test_what_an_image_lacks_is_named() -> None:
    assert missing_capabilities(("fsdp", "megatron", "vllm"), specification_called("cpu", ROOT)) == ("megatron", "vllm")
