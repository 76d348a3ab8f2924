"""Make the platform ``cpu`` and the rollout engine ``transformers`` known to verl."""

import importlib
from types import ModuleType

ROLLOUT_NAME = "transformers"


def register_platform(_module: ModuleType) -> None:
    """Register the platform, which ``VERL_PLATFORM=cpu`` selects."""
    importlib.import_module("verl_rehearsal.platform")


def register_replica(module: ModuleType) -> None:
    """Register the replica, whose module is imported when verl asks for it."""

    def load() -> type:
        return importlib.import_module("verl_rehearsal.rollout").TransformersReplica

    module.RolloutReplicaRegistry.register(ROLLOUT_NAME, load)


def register_adapter(module: ModuleType) -> None:
    """Register the trainer's side; verl has no function for that, only a table.

    Raises:
        AttributeError: verl has moved the table.
    """
    module._ROLLOUT_REGISTRY[ROLLOUT_NAME, "async"] = "verl_rehearsal.rollout.ServerAdapter"  # noqa: SLF001
