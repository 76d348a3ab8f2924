"""What a verl version really registers, and which values it compares to, read from its sources, not imported."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci.cache import digest, remembered
from ci.preflight.syntax import Find, calls_of, compared, keys_of, listed, members_of
from ci.preflight.vintage import VINTAGE
from ci.verl.source import Source

Names = dict[str, list[str]]
"""Registered name to the devices it is registered for; none where a registry does not tell devices apart."""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One kind of name: where verl's sources register it, and how."""

    title: str
    places: tuple[str, ...]
    """Files, or folders with all that is under them, relative to the package."""
    find: Find
    open: bool = True
    """Whether a plug-in may add to it."""


@dataclass(frozen=True, kw_only=True)
class Registry:
    """Names by topic, of one verl and the plug-ins of one run."""

    topics: Mapping[str, Names]

    def names(self, topic: str, *, device: str | None = None) -> tuple[str, ...]:
        """Return the names of a topic that can be used on a device, in alphabetical order."""
        found = self.topics.get(topic, {})
        return tuple(
            sorted(name for name, devices in found.items() if device is None or not devices or device in devices)
        )


def read_registry(source: Source, plugins: Iterable[Path] = ()) -> Registry:
    """Return what verl and the plug-ins register; verl's part is kept as long as its sources do not change."""
    key = digest((VINTAGE, source.fingerprint))
    topics = remembered("registries", key, lambda: _read(source.root / "verl"))
    for path in plugins:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            tree = _tree(file)
            for name, topic in TOPICS.items():
                if tree is not None and topic.open:
                    topics[name].update(topic.find(tree))
    return Registry(topics=topics)


def _read(package: Path) -> dict[str, Names]:
    topics: dict[str, Names] = {}
    parse = cache(_tree)
    for name, topic in TOPICS.items():
        found: Names = defaultdict(list)
        for place in topic.places:
            path = package / place
            for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
                tree = parse(file)
                for registered, devices in topic.find(tree) if tree is not None else ():
                    found[registered] = sorted({*found[registered], *devices})
        topics[name] = dict(found)
    return topics


def _tree(file: Path) -> ast.Module | None:
    """Parse a file, or not: a version that moved it has nothing to say there."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


TOPICS: Mapping[str, Topic] = {
    "trainer_mode": Topic(title="trainer modes", places=("trainer/ppo/v1",), find=calls_of("register_trainer")),
    "strategy": Topic(title="training engines", places=("workers/engine",), find=calls_of("EngineRegistry.register")),
    "adv_estimator": Topic(
        title="advantage estimators",
        places=("trainer/ppo/core_algos.py",),
        find=lambda tree: (
            pair for find in (members_of("AdvantageEstimator"), calls_of("register_adv_est")) for pair in find(tree)
        ),
    ),
    "rollout_engine": Topic(
        title="rollout engines",
        places=("workers/rollout/replica.py",),
        find=calls_of("RolloutReplicaRegistry.register"),
    ),
    "rollout_adapter": Topic(
        title="trainer-side rollout adapters",
        places=("workers/rollout/base.py",),
        find=keys_of("_ROLLOUT_REGISTRY"),
    ),
    "checkpoint_engine": Topic(
        title="checkpoint engines",
        places=("checkpoint_engine",),
        find=calls_of("CheckpointEngineRegistry.register"),
    ),
    "reward_manager": Topic(
        title="reward managers", places=("experimental/reward_loop/reward_manager",), find=calls_of("register")
    ),
    "agent_loop": Topic(title="agent loops", places=("experimental/agent_loop",), find=calls_of("register")),
    "policy_loss": Topic(
        title="policy losses", places=("trainer/ppo/core_algos.py",), find=calls_of("register_policy_loss")
    ),
    "distillation_loss": Topic(
        title="distillation losses",
        places=("trainer/distillation",),
        find=calls_of("DistillationLossSettings", "register_distillation_loss"),
    ),
    "kl_penalty": Topic(
        title="KL estimators", places=("trainer/ppo/core_algos.py",), find=compared("kl_penalty"), open=False
    ),
    "off_policy_strategy": Topic(
        title="off-policy strategies",
        places=("trainer/ppo/v1/replay_buffer.py",),
        find=compared("max_off_policy_strategy"),
        open=False,
    ),
    "truncation": Topic(
        title="ways to truncate", places=("utils/torch_functional.py",), find=compared("truncation"), open=False
    ),
    "resume_mode": Topic(
        title="resume modes", places=("trainer/ppo/v1/trainer_base.py",), find=compared("resume_mode"), open=False
    ),
    "logger": Topic(title="loggers", places=("utils/tracking.py",), find=listed("supported_backend"), open=False),
}
