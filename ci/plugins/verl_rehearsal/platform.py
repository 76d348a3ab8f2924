# ruff: noqa: D102 - what each method means is said by verl's PlatformBase
"""verl's platform ``cpu``: tensors stay on the host, and Ray counts logical GPUs in place of real ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def _device_module() -> ModuleType:
    """Return what stands where verl expects ``torch.cuda``: torch's own CPU counterparts, and nothing to free."""
    module = ModuleType("verl_rehearsal.device")
    for name in ("Stream", "current_stream", "stream", "is_available", "synchronize"):
        setattr(module, name, getattr(torch.cpu, name))
    module.get_rng_state, module.set_rng_state = torch.get_rng_state, torch.set_rng_state
    module.device_count = lambda: 1
    module.current_device = lambda: "cpu"
    module.get_device_name = lambda *_args: "CPU"
    module.mem_get_info = lambda *_args: (psutil.virtual_memory().available, psutil.virtual_memory().total)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, lambda *_args: 0)
    for name in (
        "set_device", "empty_cache", "ipc_collect", "set_per_process_memory_fraction",
        "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    ):  # fmt: skip
        setattr(module, name, lambda *_args, **_kwargs: None)
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One CPU as the only device, with gloo between processes."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"  # verl moves tensors to what this returns; torch takes an integer for a CUDA device

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Work on the CPU is done when a call returns."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The host's allocator takes no settings."""

    def empty_cache(self) -> None:
        """The host's allocator keeps no cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:  # noqa: ARG002 - the one device has none
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"  # Ray sets it for its logical GPUs

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:  # noqa: ARG002 - nobody records it
        yield

    def profiler_start(self) -> None:
        """There is no device profiler."""

    def profiler_stop(self) -> None:
        """There is no device profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
