"""Whether a value has the type that verl's default of the same key gives it."""

from __future__ import annotations

from typing import Any

from ci.preflight.problem import Problem

# Counts that verl divides by, allocates or loops over: it asserts some of them, and hangs or fails for others.
_COUNTS = frozenset(
    {
        "data_parallel_size",
        "expert_parallel_size",
        "gen_batch_size",
        "log_prob_max_token_len_per_gpu",
        "log_prob_micro_batch_size_per_gpu",
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_prompt_length",
        "max_response_length",
        "num_workers",
        "parameter_sync_step",
        "pipeline_model_parallel_size",
        "ppo_epochs",
        "ppo_max_token_len_per_gpu",
        "ppo_micro_batch_size_per_gpu",
        "ppo_mini_batch_size",
        "prompt_length",
        "response_length",
        "tensor_model_parallel_size",
        "total_epochs",
        "total_training_steps",
        "train_batch_size",
        "ulysses_sequence_parallel_size",
        "update_weights_bucket_megabytes",
    }
)
_SHARES = frozenset({"gpu_memory_utilization", "standalone_gpu_memory_utilization"})
# Elsewhere (rollout.nnodes, distillation.nnodes, ...) 0 means: no pool of its own.
_COUNT_KEYS = frozenset({"trainer.nnodes", "trainer.n_gpus_per_node", "actor_rollout_ref.rollout.n"})

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "True or False"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "a section"),
)


def type_problem(key: str, value: Any, default: Any) -> Problem | None:
    """Compare a value to verl's default; None where they fit or the default says nothing."""
    if value is None or (isinstance(value, str) and "${" in value):
        return None
    known = default is not None and default != "???" and not (isinstance(default, str) and "${" in default)
    if known and not _fits(value, default):
        return Problem(
            name=key,
            message=f"{key}={value} is {kind_of(value)}, where verl's default {default!r} is {kind_of(default)}",
            hint=f"give {kind_of(default)}",
        )
    return _range_problem(key, value)


def kind_of(value: Any) -> str:
    """Name the kind of a value as a reader would."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


def _fits(value: Any, default: Any) -> bool:
    match default:
        case bool():
            return isinstance(value, bool)
        case int() | float():
            # A default of 0 or 1 stands for numbers with a fraction as well: entropy_coeff: 0, top_p: 1
            whole = isinstance(default, int) and default not in {0, 1}
            return not isinstance(value, bool) and isinstance(value, int if whole else (int, float))
        case str():
            return not isinstance(value, (bool, dict))  # a name may be a number, and one file may be a list of them
        case list():
            return isinstance(value, (list, str))  # trainer.logger=console is what verl itself allows
        case dict():
            return isinstance(value, dict)
        case _:
            return True


def _range_problem(key: str, value: Any) -> Problem | None:
    last = key.rpartition(".")[2]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(value, (str, bool)) and (last in _COUNTS or last in _SHARES or key in _COUNT_KEYS):
            return Problem(name=key, message=f"{key}={value} is {kind_of(value)}, not a number", hint="give a number")
        return None
    if (last in _COUNTS or key in _COUNT_KEYS) and value < 1:
        return Problem(name=key, message=f"{key}={value} counts something, so it is at least 1", hint="give 1 or more")
    if last in _SHARES and not 0 < value <= 1:
        return Problem(
            name=key, message=f"{key}={value} is no share of a device's memory", hint="give more than 0 and at most 1"
        )
    return None
