"""What the suite costs: a warm session against the same trainer command started by hand, in alternation."""

from __future__ import annotations

import os
import secrets
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.engines import processes
from ci.engines.owner import OWNER_VARIABLE, RUN_VARIABLE, Owner
from ci.errors import CancelledError, ConfigError, ProductError
from ci.plan import Plan
from ci.runs.signals import Cancellation

PAIRS = 3
_POLL_S = 0.05


def compare(
    plan: Plan, environment: Mapping[str, str], *, root: Path, cancellation: Cancellation, pairs: int = PAIRS
) -> float:
    """Print the wall times of both, pair by pair, and return the median ratio: session divided by trainer.

    Raises:
        CancelledError: somebody asked for it; nothing is left running.
        ConfigError: there is no nox on the caller's PATH.
        ProductError: one of the two failed, so that its time says nothing.
    """
    nox = shutil.which("nox", path=environment.get("PATH"))
    if nox is None:
        raise ConfigError("no nox on PATH", hint="pip install nox, in an environment that is active")
    stopwatch = _Stopwatch(cancellation=cancellation)
    argv = (nox, "-s", f"e2e_{plan.scenario}", "--", "--target", plan.target)
    ratios = []
    with tempfile.TemporaryDirectory(prefix="verl-e2e-overhead.") as directory:
        # The session starts beside its noxfile, where nox keeps its environment; the trainer writes where it starts.
        stopwatch.seconds(argv, environment, root, "the session, to warm up")
        for pair in range(1, pairs + 1):
            by_session = stopwatch.seconds(argv, environment, root, "the session")
            trainer = {**environment, **plan.environment, "RAY_TMPDIR": directory}
            by_hand = stopwatch.seconds(plan.argv, trainer, Path(directory), "the trainer by hand")
            ratios.append(by_session / by_hand)
            print(
                f"pair {pair}: session {by_session:.1f} s, by hand {by_hand:.1f} s, ratio {ratios[-1]:.3f}", flush=True
            )
    ratio = statistics.median(ratios)
    print(f"median ratio of {pairs} pairs: {ratio:.3f}")
    return ratio


@dataclass(frozen=True, kw_only=True)
class _Stopwatch:
    cancellation: Cancellation

    def seconds(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, what: str) -> float:
        """Return the wall time of a command; whatever happens, nothing of it stays."""
        mark = f"overhead-{secrets.token_hex(4)}"
        marked = {**environment, RUN_VARIABLE: mark, OWNER_VARIABLE: Owner.current().text}
        with tempfile.TemporaryFile() as log:
            started = time.monotonic()
            process = subprocess.Popen(
                argv, env=marked, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                while process.poll() is None:
                    if self.cancellation.wait(_POLL_S):
                        raise CancelledError(f"cancelled by {self.cancellation.reason} while timing {what}")
                elapsed = time.monotonic() - started
            finally:
                processes.end(lambda: processes.of_run(mark), between=process.poll)
            if process.returncode:
                log.seek(0)
                tail = os.linesep.join(log.read().decode(errors="replace").splitlines()[-20:])
                raise ProductError(f"{what} ended with {process.returncode}:\n{tail}")
        return elapsed
