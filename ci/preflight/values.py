"""Values that Hydra lets pass, compared to what the verl version really knows."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ci.preflight.problem import Problem, nearest
from ci.preflight.registry import TOPICS, Registry
from ci.preflight.verl_code import needs_critic, needs_reference
from ci.verl.source import Source


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One key whose value has to be a registered name."""

    key: str
    """May have ``*`` for a part, which stands for every entry of a section."""
    topic: str
    when: str = ""
    """Key that has to be true for verl to read this one."""


CHOICES = (
    Choice(key="trainer.v1.trainer_mode", topic="trainer_mode", when="trainer.use_v1"),
    Choice(key="trainer.v1.sampler.max_off_policy_strategy", topic="off_policy_strategy", when="trainer.use_v1"),
    Choice(key="trainer.resume_mode", topic="resume_mode"),
    Choice(key="trainer.logger", topic="logger"),
    Choice(key="algorithm.adv_estimator", topic="adv_estimator"),
    Choice(key="algorithm.kl_penalty", topic="kl_penalty", when="algorithm.use_kl_in_reward"),
    Choice(key="data.truncation", topic="truncation"),
    Choice(key="actor_rollout_ref.actor.strategy", topic="strategy"),
    Choice(key="actor_rollout_ref.actor.kl_loss_type", topic="kl_penalty", when="actor_rollout_ref.actor.use_kl_loss"),
    Choice(key="actor_rollout_ref.actor.policy_loss.loss_mode", topic="policy_loss"),
    Choice(key="actor_rollout_ref.rollout.name", topic="rollout_engine"),
    Choice(key="actor_rollout_ref.rollout.name", topic="rollout_adapter"),
    Choice(key="actor_rollout_ref.rollout.checkpoint_engine.backend", topic="checkpoint_engine"),
    Choice(key="actor_rollout_ref.rollout.agent.default_agent_loop", topic="agent_loop"),
    Choice(key="reward.reward_manager.name", topic="reward_manager"),
    Choice(key="reward.reward_model.rollout.name", topic="rollout_engine", when="reward.reward_model.enable"),
    Choice(key="distillation.distillation_loss.loss_mode", topic="distillation_loss", when="distillation.enabled"),
    Choice(key="distillation.teacher_models.*.inference.name", topic="rollout_engine", when="distillation.enabled"),
)


def value_problems(
    configuration: DictConfig, registry: Registry, source: Source, *, device: str
) -> tuple[Problem, ...]:
    """Compare every chosen name to those registered for the device ("cuda", "npu" or "cpu")."""
    choices = list(CHOICES)
    if needs_reference(configuration):
        choices.append(Choice(key="actor_rollout_ref.ref.strategy", topic="strategy"))
    if needs_critic(configuration):
        choices.append(Choice(key="critic.strategy", topic="strategy"))
    problems: dict[str, Problem] = {}
    for choice in choices:
        if choice.when and not _value(configuration, choice.when):
            continue
        if choice.topic == "reward_manager" and _value(configuration, "reward.reward_manager.source") == "importlib":
            continue  # a class of the caller's own module, which only the machine that runs it has
        for key, value in _matching(configuration, choice.key):
            for problem in _problems(key, value, choice.topic, registry, source, device):
                problems.setdefault(f"{key}={value}", problem)
    return tuple(problems.values())


def _problems(key: str, value: Any, topic: str, registry: Registry, source: Source, device: str) -> Iterator[Problem]:
    title = TOPICS[topic].title
    everywhere = registry.names(topic)
    if not everywhere:
        yield Problem(
            name=key,
            message=f"unknown: the {title} of {source} could not be read from {', '.join(TOPICS[topic].places)}",
            hint="this verl is laid out in another way: teach ci/preflight/registry.py where it registers them",
        )
        return
    known = registry.names(topic, device=device) if topic == "strategy" else everywhere
    for name in value if isinstance(value, (list, tuple)) else (value,):
        if name is None or _plain(str(name), topic) in known:
            continue
        if name in everywhere:
            yield Problem(
                name=key,
                message=f"{key}={name} is not registered for {device} in {source}",
                hint=f"on {device} there are {', '.join(known)}",
            )
            continue
        meant = nearest(str(name), known)
        listed = f"{source} knows {', '.join(known)}"
        yield Problem(
            name=key,
            message=f"{key}={name} is none of the {title} of {source}",
            hint=f"did you mean {meant[0]}? {listed}" if meant else listed,
        )


def _plain(name: str, topic: str) -> str:
    # A plus behind a KL estimator asks for the straight-through gradient of k2.
    return name.removesuffix("+") if topic == "kl_penalty" else name


def _matching(configuration: DictConfig, pattern: str) -> Iterator[tuple[str, Any]]:
    section, star, rest = pattern.partition(".*.")
    if not star:
        yield pattern, _value(configuration, pattern)
        return
    entries = _value(configuration, section)
    if isinstance(entries, Mapping):
        # verl takes its own empty entry out where others were added
        names = [name for name in entries if len(entries) == 1 or not fnmatch.fnmatch(name, "teacher_model")]
        for name in names:
            yield f"{section}.{name}.{rest}", _value(configuration, f"{section}.{name}.{rest}")


def _value(configuration: DictConfig, key: str) -> Any:
    """Return a plain value; None where it is missing, not set, or cannot be resolved here."""
    found = OmegaConf.select(configuration, key, default=None, throw_on_resolution_failure=False)
    return OmegaConf.to_container(found, resolve=False) if OmegaConf.is_config(found) else found
