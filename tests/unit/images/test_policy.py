from __future__ import annotations

import pytest

from ci.images.policy import problems
from ci.plan import Image

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
