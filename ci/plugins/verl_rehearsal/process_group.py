"""The one function of verl that is replaced.

verl names the backend of its process group after host and device, ``cpu:gloo,cpu:gloo`` on a CPU, and torch refuses
to hear of a device twice. verl has no way to say otherwise.
"""

import functools
from types import ModuleType
from typing import Any


def replace(module: ModuleType) -> None:
    """Let ``initialize_global_process_group_ray`` use gloo where its caller names no backend."""
    initialize = module.initialize_global_process_group_ray

    @functools.wraps(initialize)
    def initialize_global_process_group_ray(timeout_second: int | None = None, backend: str | None = None) -> Any:
        return initialize(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    module.initialize_global_process_group_ray = initialize_global_process_group_ray
