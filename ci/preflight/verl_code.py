"""Run verl's own configuration code on composed configurations: one process for the whole catalogue, without torch.

Started by `ci.preflight.effective` with verl's folder as its argument. Each line of its input is a job, a configuration
with the keys that were given; each line of its output is what verl made of one, in the same order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

from ci.preflight.absent import Absent, AbsentFinder

Answer = dict[str, Any]


def main() -> None:
    """Answer jobs until the input ends."""
    output = sys.stdout
    sys.stdout = sys.stderr  # verl's checks print
    warnings.simplefilter("ignore")
    sys.meta_path.insert(0, AbsentFinder(Path(sys.argv[1])))
    for line in sys.stdin:
        job = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                answer = effective(OmegaConf.create(job["configuration"]), frozenset(job["given"]))
            except Exception as error:  # noqa: BLE001 (a verl of another shape must not take the other scenarios with it)
                answer = {"facts": {}, "refused": [], "rewritten": [], "unknown": [["configuration", _message(error)]]}
        print(json.dumps(answer), file=output, flush=True)


def effective(configuration: DictConfig, given: frozenset[str]) -> Answer:
    """Return the facts, what verl refuses, what it rewrites, and what could not be found out."""
    answer: Answer = {"facts": {}, "refused": [], "rewritten": [], "unknown": []}
    objects: dict[str, Any] = {}
    for key in _sections(configuration):
        try:
            made = _made(configuration, key)
        except _UnknownError as error:
            answer["unknown"].append([key, str(error)])
        except Exception as error:  # noqa: BLE001 (whatever verl raises is what is to be shown)
            answer["refused"].append([key, _message(error)])
        else:
            objects[key] = made
            given_here = [name for name in given if name.startswith(f"{key}.")]
            answer["refused"].extend(_wrong_types(made, key, given_here))
            answer["rewritten"].extend(_rewritten(made, configuration, key, given_here))
    if not answer["refused"] and not answer["unknown"]:
        answer["refused"].extend(_validated(configuration))
    for key in ("trainer.n_gpus_per_node", "trainer.nnodes"):
        if not isinstance(OmegaConf.select(configuration, key), int):
            answer["refused"].append([key, f"{key} is not set, so there is no number of training ranks"])
            return answer
    answer["facts"] = _facts(configuration, objects)
    return answer


class _UnknownError(Exception):
    """verl's code cannot be run this way."""


def _sections(configuration: DictConfig) -> Iterator[str]:
    """Yield the sections that verl itself turns into dataclasses in this configuration."""
    select = partial(OmegaConf.select, configuration)
    yield "actor_rollout_ref.model"
    yield "actor_rollout_ref.actor"
    yield "actor_rollout_ref.rollout"
    yield "actor_rollout_ref.rollout.checkpoint_engine"
    if needs_critic(configuration):
        yield "critic"
    if select("reward.reward_model.enable"):
        yield "reward.reward_model.rollout"
    if select("distillation.enabled"):
        yield "distillation"
    if select("trainer.v1.trainer_mode") == "separate_async" and select("trainer.v1.separate_async.hybrid_rollout"):
        yield "trainer.v1.separate_async.hybrid_rollout"
    if select("skip._target_"):
        yield "skip"


def needs_critic(configuration: DictConfig) -> bool:
    """Tell whether verl trains a critic: its own rule, https://verl.readthedocs.io/en/latest/examples/config.html."""
    wanted = OmegaConf.select(configuration, "critic.enable")
    return bool(wanted) if wanted is not None else OmegaConf.select(configuration, "algorithm.adv_estimator") == "gae"


def needs_reference(configuration: DictConfig) -> bool:
    """Tell whether verl loads a reference policy."""
    return bool(
        OmegaConf.select(configuration, "algorithm.use_kl_in_reward")
        or OmegaConf.select(configuration, "actor_rollout_ref.actor.use_kl_loss")
    )


def _made(configuration: DictConfig, key: str) -> Any:
    """Convert one section with verl's own function and constructors."""
    section = OmegaConf.select(configuration, key)
    if section is None:
        raise _UnknownError(f"verl's configuration has no {key}")
    target = section.get("_target_")
    if not target:
        raise _UnknownError("verl's configuration names no dataclass (_target_) for it")
    try:
        cls = _named(target)
        convert = _named("verl.utils.config.omega_conf_to_dataclass")
    except Exception as error:  # verl's modules may do anything when they are imported
        raise _UnknownError(f"{target} cannot be loaded without torch: {_message(error)}") from error
    if key.endswith(".model"):
        # Its __post_init__ loads tokenizer and weights; what is left are the names and types of its fields.
        with _without_post_init(cls):
            return convert(section)
    return convert(section)


def _named(target: str) -> Any:
    """Return what a dotted name of verl stands for, and never a stand-in."""
    module, _, name = target.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if isinstance(found, type) and issubclass(found, Absent):
        raise _UnknownError(f"{module} is not one of the modules that are read")
    return found


@contextlib.contextmanager
def _without_post_init(cls: Any) -> Iterator[None]:
    original: Callable[..., None] | None = cls.__dict__.get("__post_init__")
    if original is None:
        yield
        return
    cls.__post_init__ = lambda _self: None
    try:
        yield
    finally:
        cls.__post_init__ = original


def _validated(configuration: DictConfig) -> Iterator[list[str]]:
    """Run verl's validate_config, which its trainer runs first."""
    try:
        validate = _named("verl.utils.config.validate_config")
        validate(
            config=configuration,
            use_reference_policy=needs_reference(configuration),
            use_critic=needs_critic(configuration),
        )
    except Exception as error:  # noqa: BLE001 (whatever verl raises is what is to be shown)
        yield ["verl.utils.config.validate_config", _message(error)]


def _wrong_types(made: Any, key: str, given: list[str]) -> Iterator[list[str]]:
    """Yield the given keys whose value is not of the type that verl's dataclass declares: Python does not look."""
    for name in given:
        parent, _, last = name.removeprefix(f"{key}.").rpartition(".")
        holder = _inner(made, parent)
        if not dataclasses.is_dataclass(holder):
            continue
        try:
            declared = typing.get_type_hints(type(holder)).get(last)
        except (NameError, TypeError, AttributeError):
            continue  # an annotation that names an absent module says nothing
        value = getattr(holder, last, None)
        if declared is not None and not _is(value, declared):
            shown = declared.__name__ if isinstance(declared, type) else str(declared).replace("typing.", "")
            yield [name, f"{name}={value!r} is no {shown}, as {type(holder).__name__} declares it"]


def _is(value: Any, declared: Any) -> bool:
    """Compare a value to a declared type, as far as that is one of the simple ones."""
    if typing.get_origin(declared) in {typing.Union, types.UnionType}:
        return any(_is(value, option) for option in typing.get_args(declared))
    if declared is type(None):
        return value is None
    allowed = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(declared)
    if value is None or allowed is None:
        return True  # verl declares int and defaults to None
    return isinstance(value, allowed) and isinstance(value, bool) <= (declared is bool)


def _rewritten(made: Any, configuration: DictConfig, key: str, given: list[str]) -> Iterator[list[Any]]:
    """Yield the given keys whose value verl's dataclasses have changed: key, asked, effective."""
    for name in given:
        asked = OmegaConf.select(configuration, name)
        parent, _, last = name.removeprefix(f"{key}.").rpartition(".")
        holder = _inner(made, parent)
        plain = isinstance(asked, (bool, int, float, str))
        if plain and dataclasses.is_dataclass(holder) and hasattr(holder, last):
            value = getattr(holder, last)
            if value != asked and isinstance(value, (bool, int, float, str, type(None))):
                yield [name, asked, value]


def _inner(made: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        made = made.get(part) if isinstance(made, dict) else getattr(made, part, None)
    return made


def _facts(configuration: DictConfig, objects: dict[str, Any]) -> Answer:
    """Return the effective facts; one that verl's code did not tell is left out."""
    select = partial(OmegaConf.select, configuration)
    facts: Answer = {}
    mode = select("trainer.v1.trainer_mode") if select("trainer.use_v1") else "v0"
    facts["trainer_mode"] = mode
    ranks = select("trainer.n_gpus_per_node") * select("trainer.nnodes")
    facts["ranks"] = ranks
    actor = objects.get("actor_rollout_ref.actor")
    engine = getattr(actor, "engine", None)
    if engine is not None:
        facts.update(_engine_facts(engine, ranks))
    rollout = objects.get("actor_rollout_ref.rollout")
    if rollout is not None:
        facts["rollout_engine"] = rollout.name
    checkpoint = objects.get("actor_rollout_ref.rollout.checkpoint_engine")
    if checkpoint is not None:
        # The colocated modes always hand weights over with "naive", whatever is configured.
        facts["checkpoint_engine"] = checkpoint.backend if mode == "separate_async" else "naive"
    if not select("reward.reward_model.enable"):
        facts["reward_pool"] = "none"
    else:
        facts["reward_pool"] = "own" if select("reward.reward_model.enable_resource_pool") else "colocated"
        judge = objects.get("reward.reward_model.rollout")
        if judge is not None:
            facts["reward_engine"] = judge.name
    return facts


def _engine_facts(engine: Any, ranks: int) -> Answer:
    """Return how the training engine spreads the model over its ranks."""
    strategy = engine.strategy
    facts: Answer = {"strategy": strategy}
    if strategy.startswith("fsdp"):
        facts["fsdp_size"] = engine.fsdp_size
        sequence = engine.ulysses_sequence_parallel_size
        facts["sequence_parallel"] = sequence
        facts["data_parallel"] = ranks // sequence if sequence else 0
    elif hasattr(engine, "tensor_model_parallel_size"):
        facts["tensor_parallel"] = engine.tensor_model_parallel_size
        facts["pipeline_parallel"] = engine.pipeline_model_parallel_size
        facts["context_parallel"] = engine.context_parallel_size
        share = facts["tensor_parallel"] * facts["pipeline_parallel"] * facts["context_parallel"]
        facts["data_parallel"] = ranks // share if share else 0
    return facts


def _message(error: BaseException) -> str:
    """Return what went wrong, without Hydra's frame around it."""
    inner = error
    if isinstance(error, InstantiationException) and error.__cause__ is not None:
        inner = error.__cause__
    text = " ".join(str(inner).split())
    return text if text and not isinstance(inner, KeyError) else f"{type(inner).__name__}: {text or 'no message'}"


if __name__ == "__main__":
    main()
