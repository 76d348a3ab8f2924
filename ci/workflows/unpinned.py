"""What the generated workflows take in without a digest or a commit, for want of one that anybody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# both stand in the generated text itself, so that a reader of the workflow sees them too
_REMARK = re.compile(
    r"^\s*(?:- )?(?:image|uses): (\S+) # zizmor: ignore\[unpinned-(?:images|uses)\] (.+)$", re.MULTILINE
)


def unpinned(workflows: Mapping[str, str]) -> Iterator[str]:
    """Yield each image and action that is named by its tag alone, why, and the workflows that use it."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, text in workflows.items():
        for name, why in _REMARK.findall(text):
            found.setdefault((name, why), []).append(path.rpartition("/")[2])
    for (name, why), files in found.items():
        yield f"not pinned: {name}, {why} (in {', '.join(dict.fromkeys(files))})"
