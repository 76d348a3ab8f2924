"""Where torch can be had without CUDA: 0.2 GB in place of 3 GB."""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PATIENCE_S = 2.0
"""A machine that cannot reach the index must not lose minutes to it."""
_CHOSEN = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX")
"""Variables by which the caller chose where wheels come from beside the main index."""


def cpu_torch_index(environment: Mapping[str, str], *, url: str = CPU_INDEX) -> str | None:
    """Return PyTorch's index of CPU builds, or None where it is of no use or does not answer in time.

    None too where pip's variables name further sources: the caller knows where a CPU build lies, or wants none.
    Elsewhere than on Linux the main index has nothing but CPU builds.
    """
    if sys.platform != "linux" or any(environment.get(name) for name in _CHOSEN):
        return None
    answers: list[str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{url}/torch/", timeout=PATIENCE_S) as page:  # noqa: S310 - a constant
                answers.append(page.read(4096).decode(errors="replace"))
        except (OSError, ValueError, urllib.error.URLError):
            return

    # A thread, since a name server that is silent does not keep to urlopen's timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return url if any("torch-" in answer for answer in answers) else None
