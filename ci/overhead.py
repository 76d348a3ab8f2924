"""What the suite costs: a warm session against the same trainer command started by hand, in alternation."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.errors import ConfigError, ProductError
from ci.plan import Plan

PAIRS = 3


def compare(plan: Plan, environment: Mapping[str, str], *, root: Path, pairs: int = PAIRS) -> float:
    """Print the wall times of both, pair by pair, and return the median ratio: session divided by trainer.

    Raises:
        ConfigError: there is no nox on the caller's PATH.
        ProductError: one of the two failed, so that its time says nothing.
    """
    nox = shutil.which("nox", path=environment.get("PATH"))
    if nox is None:
        raise ConfigError("no nox on PATH", hint="pip install nox, in an environment that is active")
    session = (nox, "-f", str(root / "noxfile.py"), "-s", f"e2e_{plan.scenario}", "--", "--target", plan.target)
    _seconds(session, environment, "the session, to warm up")
    ratios = []
    for pair in range(1, pairs + 1):
        by_session = _seconds(session, environment, "the session")
        by_hand = _seconds(plan.argv, {**environment, **plan.environment}, "the trainer by hand")
        ratios.append(by_session / by_hand)
        print(f"pair {pair}: session {by_session:.1f} s, by hand {by_hand:.1f} s, ratio {ratios[-1]:.3f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"median ratio of {pairs} pairs: {ratio:.3f}")
    return ratio


def _seconds(argv: Sequence[str], environment: Mapping[str, str], what: str) -> float:
    """Return the wall time of a command that has a folder of its own to work in."""
    with tempfile.TemporaryDirectory(prefix="verl-e2e-overhead.") as directory:
        log = Path(directory, "log")
        with log.open("wb") as file:
            started = time.monotonic()
            done = subprocess.run(
                argv, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
            elapsed = time.monotonic() - started
        if done.returncode:
            tail = os.linesep.join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
            raise ProductError(f"{what} ended with {done.returncode}:\n{tail}")
    return elapsed
