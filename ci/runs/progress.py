"""How far a run is: one line below the log on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import time

from rich.cells import set_cell_size

from ci.plan import Plan
from ci.runs.console import Terminal
from ci.runs.events import Event, Metrics, Stage
from ci.scenarios.model import StepsCheck

_REFRESH_S = 0.5
_PLAIN_EVERY_S = 30.0
_SHOWN_METRICS = ("critic/score/mean", "actor/loss", "actor/grad_norm", "timing_s/step")
_STAGES = {
    "ray": "starting Ray",
    "models": "loading the models",
    "rollout": "starting the rollout servers",
    "fit": "waiting for the first step",
}
"""The observer's stages, as they read after "while"."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """Shows stage, step x of y, elapsed time and the last metrics of one run."""

    def __init__(self, plan: Plan, terminal: Terminal) -> None:
        self._scenario = plan.scenario
        self._terminal = terminal
        wanted = (int(check.at_least) for check in plan.checks.values() if isinstance(check, StepsCheck))
        self._steps = max(wanted, default=0)
        self._started = time.monotonic()
        self._shown = 0.0
        self._ticks = 0
        self._step = 0
        self._metrics: dict[str, float] = {}
        self.stage = "preparing"

    def enter(self, stage: str) -> None:
        """Say that the run reached a stage."""
        self.stage = stage
        self._show(now=True)

    def take(self, event: Event) -> None:
        """Take what the run reports."""
        match event:
            case Stage(name=name):
                self.enter(_STAGES.get(name, name))
            case Metrics(step=step, metrics=metrics) if step > 0:
                self._metrics |= metrics
                if step > self._step:
                    self._step = step
                    self.enter("training")
            case _:
                pass

    def tick(self) -> None:
        """Refresh what is shown, when it is time."""
        self._show(now=False)

    def where(self) -> str:
        """Say how far the run is, as the end of a sentence."""
        return f"while {self.stage}" if not self._step else f"while {self.stage}, after {self._steps_text()}"

    def text(self) -> str:
        """Return the line."""
        parts = [self.stage]
        if self._step:
            parts.append(self._steps_text())
        parts.append(elapsed(time.monotonic() - self._started))
        parts += [f"{name} {self._metrics[name]:.4g}" for name in _SHOWN_METRICS if name in self._metrics]
        return f"{self._scenario}: {' · '.join(parts)}"

    def _steps_text(self) -> str:
        return f"step {self._step} of {self._steps}" if self._steps else f"step {self._step}"

    def _show(self, *, now: bool) -> None:
        age = time.monotonic() - self._shown
        if self._terminal.interactive:
            if now or age >= _REFRESH_S:
                self._shown = time.monotonic()
                self._ticks += 1
                self._terminal.status(_cut(f"{_SPINNER[self._ticks % len(_SPINNER)]} {self.text()}"))
        elif now or age >= _PLAIN_EVERY_S:
            self._shown = time.monotonic()
            self._terminal.line(f"── {self.text()}")


def elapsed(seconds: float) -> str:
    """Return a duration as ``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _cut(line: str) -> str:
    """Return the line as wide as the terminal at most: one that wraps could not be erased."""
    try:
        width = os.get_terminal_size().columns - 1
    except OSError:
        width = 79
    return set_cell_size(line, width).rstrip()
