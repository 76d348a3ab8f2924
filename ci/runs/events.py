"""What the run's processes report about themselves: JSON lines in ``runs/ID/events.jsonl``, by the observer plug-in.

The file is the channel because Ray's log streaming loses, repeats and recolours lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

EVENTS_VARIABLE = "VERL_E2E_EVENTS"
"""Names the file for `ci/plugins/verl_observer`."""


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics that verl logged for one step; NaN and infinities are kept."""

    step: int
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """One side of one weight sync, with the digest of what it holds."""

    side: Literal["trainer", "rollout"]
    version: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class RolloutError:
    """A rollout server raised: verl's agent loop would retry for ever."""

    error: str


@dataclass(frozen=True, kw_only=True)
class ObserverError:
    """The observer could not look at something; the run itself goes on."""

    error: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The run reached a part of its work that has a name."""

    name: str


Event = Metrics | Weights | RolloutError | ObserverError | Stage


class EventFile:
    """Follows the file while processes append to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""
        self.unreadable = 0
        """Lines that are no event: two processes may have written into each other."""

    @property
    def position(self) -> int:
        """Bytes read so far: grows while events come."""
        return self._position

    def read(self) -> tuple[Event, ...]:
        """Return the events that were completed since the last call; half a last line waits for its end."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return ()
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return tuple(self._parsed(lines))

    def finish(self) -> tuple[Event, ...]:
        """Return what is left once nobody writes any more, a last line without its end included."""
        events = self.read()
        last, self._rest = self._rest, b""
        return (*events, *self._parsed([last]))

    def _parsed(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            if not line.strip():
                continue
            try:
                event = _event(json.loads(line))
            except (ValueError, KeyError, TypeError):
                self.unreadable += 1
                continue
            if event is not None:
                yield event


def _event(value: dict[str, Any]) -> Event | None:
    """Return the event a line stands for, None for one of a kind that nobody here waits for."""
    match value["event"]:
        case "metrics":
            return Metrics(step=int(value["step"]), metrics=dict(_numbers(value["metrics"])))
        case "weights":
            side = value["side"]
            if side not in {"trainer", "rollout"}:
                message = f"a weight sync has no side {side!r}"
                raise ValueError(message)
            return Weights(side=side, version=int(value["version"]), digest=str(value["digest"]))
        case "rollout_error":
            return RolloutError(error=str(value["error"]))
        case "observer_error":
            return ObserverError(error=str(value["error"]))
        case "stage":
            return Stage(name=str(value["name"]))
        case _:
            return None


def _numbers(metrics: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in metrics.items():
        if isinstance(value, int | float):  # verl also logs texts
            yield name, float(value)
