from __future__ import annotations

from ci.workflows.generate import current
from ci.workflows.unpinned import unpinned

COMMIT = "11bd71901bbe5b1630ceea73d27597364c9af683"


def test_names_each_once_with_the_workflows_that_use_it() -> None:
    image = "  container:\n    image: registry/verl:latest # zizmor: ignore[unpinned-images] until it is pinned\n"
    action = "  steps:\n    - uses: owner/action@v1 # zizmor: ignore[unpinned-uses] nobody knows the commit\n"
    pinned = f"    - uses: actions/checkout@{COMMIT} # v4.2.2\n      image: registry/verl@sha256:0\n"
    found = list(unpinned({".github/workflows/a.yml": image * 2 + pinned, ".github/workflows/b.yml": image + action}))
    assert found == [
        "not pinned: registry/verl:latest, until it is pinned (in a.yml, b.yml)",
        "not pinned: owner/action@v1, nobody knows the commit (in b.yml)",
    ]


def test_every_remark_of_the_generated_workflows_is_named() -> None:
    workflows = current()
    named = " ".join(unpinned(workflows))
    remarked = [line for text in workflows.values() for line in text.splitlines() if "ignore[unpinned-" in line]
    assert all(line.split("#")[0].rsplit(maxsplit=1)[-1] in named for line in remarked)
