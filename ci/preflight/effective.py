"""The configuration as verl will really use it, compared to what the scenario says must be true of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from ci.cache import cache_directory, digest, write_whole
from ci.preflight.configuration import Composition
from ci.preflight.problem import Problem
from ci.preflight.vintage import VINTAGE
from ci.scenarios.model import Facts
from ci.verl.source import Source

ANSWER_LIMIT_S = 60.0

# Fact to the key that decides it.
KEYS: Mapping[str, str] = {
    "trainer_mode": "trainer.v1.trainer_mode",
    "strategy": "actor_rollout_ref.actor.strategy",
    "rollout_engine": "actor_rollout_ref.rollout.name",
    "checkpoint_engine": "actor_rollout_ref.rollout.checkpoint_engine.backend",
    "reward_engine": "reward.reward_model.rollout.name",
    "tensor_parallel": "actor_rollout_ref.actor.megatron.tensor_model_parallel_size",
    "pipeline_parallel": "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size",
    "data_parallel": "trainer.n_gpus_per_node",
    "fsdp_size": "actor_rollout_ref.actor.fsdp_config.fsdp_size",
    "reward_pool": "reward.reward_model.enable_resource_pool",
}
_TRAINED_AS = {"fsdp": "FSDP1", "fsdp2": "FSDP2", "megatron": "Megatron"}


@dataclass(frozen=True, kw_only=True)
class Effective:
    """What verl's own code made of a configuration."""

    facts: Mapping[str, Any]
    refused: tuple[tuple[str, str], ...] = ()
    """Section and what verl's constructors and checks said."""
    rewritten: tuple[tuple[str, Any, Any], ...] = ()
    """Key that was given, the value asked for, the value verl will use."""
    unknown: tuple[tuple[str, str], ...] = ()
    """Section and why verl's code could not be run on it."""


@dataclass(kw_only=True)
class VerlCode:
    """A process that runs verl's dataclasses; it starts with the first question that the cache has no answer to.

    Questions are answered while the next configuration is composed, so ask all of them before collecting.
    """

    source: Source
    _asked: dict[str, str] = field(default_factory=dict)
    """Scenario to the key of its answer."""
    _pending: list[str] = field(default_factory=list)
    _fresh: dict[str, Any] = field(default_factory=dict)
    _end: str = ""
    """Why the process gave no answer."""
    _process: subprocess.Popen[str] | None = None
    _answers: IO[str] | None = None
    _errors: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for file in (self._answers, self._errors, self._process.stdin if self._process else None):
            if file is not None and not file.closed:
                file.close()

    def ask(self, scenario: str, composition: Composition) -> None:
        """Have a composed configuration converted."""
        job = json.dumps(
            {"configuration": composition.configuration, "given": sorted(composition.given)}, sort_keys=True
        )
        key = digest((VINTAGE, self.source.fingerprint, job))
        self._asked[scenario] = key
        if self._kept(key).is_file() or key in self._pending:
            return
        process = self._process or self._start()
        self._pending.append(key)
        if process.stdin is not None:
            try:
                process.stdin.write(f"{job}\n")
                process.stdin.flush()
            except BrokenPipeError:
                return  # collect() says why the process has ended

    def collect(self) -> dict[str, Effective]:
        """Return the answers by scenario."""
        self._wait()
        return {scenario: self._answer(key) for scenario, key in self._asked.items()}

    def _start(self) -> subprocess.Popen[str]:
        # Files, not pipes: the process never waits for somebody to read what it says.
        self._answers = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed by __exit__)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed by __exit__)
        self._process = subprocess.Popen(
            (sys.executable, "-m", "ci.preflight.verl_code", str(self.source.root)),
            stdin=subprocess.PIPE,
            stdout=self._answers,
            stderr=self._errors,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            start_new_session=True,  # Ctrl-C is for the suite, which ends it
        )
        return self._process

    def _wait(self) -> None:
        if self._process is None or self._answers is None or self._errors is None:
            return
        try:
            self._process.communicate(timeout=ANSWER_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.seek(0)
        for key, line in zip(self._pending, self._answers.read().splitlines(), strict=False):
            answer = json.loads(line)
            if not answer["unknown"]:
                write_whole(self._kept(key), line)
            self._fresh[key] = answer
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:]
        self._end = last[0] if last else f"its process ended with code {self._process.returncode}"

    def _answer(self, key: str) -> Effective:
        answer = self._fresh.get(key)
        if answer is None and self._kept(key).is_file():
            answer = json.loads(self._kept(key).read_text(encoding="utf-8"))
        if answer is None:
            return Effective(facts={}, unknown=(("configuration", self._end),))
        return Effective(
            facts=answer["facts"],
            refused=tuple((key, why) for key, why in answer["refused"]),
            rewritten=tuple((key, asked, used) for key, asked, used in answer["rewritten"]),
            unknown=tuple((key, why) for key, why in answer["unknown"]),
        )

    def _kept(self, key: str) -> Path:
        return cache_directory("effective") / f"{key}.json"


def fact_problems(wanted: Facts, effective: Effective) -> tuple[Problem, ...]:
    """Say of every fact that does not hold what verl would do instead, why, and which key decides."""
    return (*_mismatches(wanted, effective), *_refusals(effective), *_rewrites(wanted, effective))


def _mismatches(wanted: Facts, effective: Effective) -> Iterator[Problem]:
    facts = wanted.model_dump(exclude_none=True)
    unknown = [name for name in facts if effective.facts.get(name) is None]
    if unknown and not effective.refused:  # what verl refuses is said already, and reason enough
        stated = ", ".join(f"{name} {facts[name]}" for name in unknown)
        yield Problem(
            name="facts",
            message=f"unknown: whether verl would really use what the scenario states ({stated})",
            hint="nothing is assumed: put the configuration right, or compare with another verl (--verl)",
        )
    for name, value in facts.items():
        found = effective.facts.get(name)
        key = KEYS[name]
        if found is None or str(found) == str(value):
            continue
        if name == "strategy":
            yield _strategy(value, found, effective)
        else:
            because = _because(name, effective.facts)
            yield Problem(
                name=name,
                message=f"{name} would be {found}, but the scenario is about {value}{because}",
                hint=f"look at {key}",
            )


def _strategy(wanted: Any, found: Any, effective: Effective) -> Problem:
    """Tell apart the strategy that was never asked for from the one that verl overwrote."""
    hint = "choose model_engine=megatron" if wanted == "megatron" else f"set {KEYS['strategy']}={wanted}"
    would = f"verl would train {_TRAINED_AS.get(str(found), found)}"
    for key, asked, used in effective.rewritten:
        if key.endswith(".strategy") and used == found:
            section = key.split(".")[-2]
            return Problem(
                name="strategy",
                message=f"actor.strategy={found} wins over {section}.strategy={asked}: {would}",
                hint=hint,
            )
    trained = _TRAINED_AS.get(str(wanted), wanted)
    return Problem(name="strategy", message=f"{would}, but the scenario is about {trained}", hint=hint)


def _because(name: str, facts: Mapping[str, Any]) -> str:
    if name != "data_parallel":
        return ""
    parts = [
        f"{part.replace('_', ' ')} {facts[part]}"
        for part in ("tensor_parallel", "pipeline_parallel", "context_parallel", "sequence_parallel")
        if facts.get(part, 1) != 1
    ]
    return f" ({facts.get('ranks')} training ranks{' over ' + ' × '.join(parts) if parts else ''})"


def _refusals(effective: Effective) -> Iterator[Problem]:
    for section, why in effective.refused:
        yield Problem(
            name=section, message=f"verl refuses it: {why}", hint="this is what verl itself would say, minutes later"
        )
    for section, why in effective.unknown:
        yield Problem(
            name=section,
            message=f"unknown: {why}",
            hint="is this verl laid out in another way? ci/preflight/absent.py says which modules are read",
        )


def _rewrites(wanted: Facts, effective: Effective) -> Iterator[Problem]:
    for key, asked, used in effective.rewritten:
        about_strategy = key.endswith(".strategy")
        if about_strategy and wanted.strategy is not None and str(effective.facts.get("strategy")) != wanted.strategy:
            continue  # said already, with the reason
        yield Problem(
            name=key,
            message=f"verl's own code turns {key}={asked} into {used}",
            hint="the override has no effect: take it out, or set the key that wins",
            state="failed" if about_strategy else "warning",
        )
