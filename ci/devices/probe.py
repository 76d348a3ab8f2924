"""Which accelerators this machine has, how much memory they use, and which processes hold them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pynvml  # type: ignore[import-untyped]  # nvidia-ml-py comes without types

from ci.scenarios.model import Accelerator, Target

_MEBIBYTE = 1024**2
_NPU_SMI_LIMIT_S = 20.0
_DEVICE_FILE = re.compile(r"davinci(?P<id>\d+)")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator."""

    kind: Accelerator
    id: int
    """What CUDA_VISIBLE_DEVICES, or ASCEND_RT_VISIBLE_DEVICES, calls it while all devices are visible."""
    name: str
    memory_total: int
    """Bytes; 0 where nobody tells."""
    memory_used: int
    """Bytes; a driver takes some of an idle device too, an Ascend one about 3 GiB."""
    busy_by: tuple[str, ...] = ()
    """Processes on it, as ``name (pid)``; inside a container those outside may be invisible."""

    @property
    def free(self) -> bool:
        """Tell whether no process is known to use it."""
        return not self.busy_by


def probe() -> tuple[Device, ...]:
    """Return the accelerators of this machine, NVIDIA before Ascend; none where there is no driver."""
    return (*nvidia_devices(), *ascend_devices())


def machine_target() -> Target:
    """Return the best target this machine can run."""
    if _nvidia_count():
        return "cuda"
    return "npu" if ascend_devices() else "cpu"


def nvidia_devices() -> tuple[Device, ...]:
    """Ask NVML about the GPUs, see https://docs.nvidia.com/deploy/nvml-api/."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()  # no driver here
    try:
        return tuple(_nvidia_device(index) for index in range(pynvml.nvmlDeviceGetCount()))
    finally:
        pynvml.nvmlShutdown()


def _nvidia_count() -> int:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def _nvidia_device(index: int) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    name = pynvml.nvmlDeviceGetName(handle)
    total, used = 0, 0
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        total, used = int(memory.total), int(memory.used)
    except pynvml.NVMLError:
        pass  # an integrated GPU shares the machine's memory, and a MIG parent does not tell
    return Device(
        kind="cuda",
        id=index,
        name=name.decode() if isinstance(name, bytes) else str(name),
        memory_total=total,
        memory_used=used,
        busy_by=tuple(_named(process.pid) for process in _nvidia_processes(handle)),
    )


def _nvidia_processes(handle: Any) -> list[Any]:
    try:
        return list(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLError:
        return []  # a driver without the right to tell


def ascend_devices() -> tuple[Device, ...]:
    """Ask npu-smi about the NPUs; without it, count the device files, which say no more than that they are there."""
    if shutil.which("npu-smi"):
        try:
            run = subprocess.run(
                ("npu-smi", "info"), capture_output=True, text=True, timeout=_NPU_SMI_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
        else:
            if devices := parse_npu_smi(run.stdout):
                return devices
    found = (_DEVICE_FILE.fullmatch(path.name) for path in Path("/dev").glob("davinci*"))
    identifiers = sorted(int(match["id"]) for match in found if match)
    return tuple(Device(kind="npu", id=number, name="Ascend", memory_total=0, memory_used=0) for number in identifiers)


@dataclass(frozen=True, kw_only=True)
class _Chip:
    npu: int
    chip: int
    device: Device


def parse_npu_smi(text: str) -> tuple[Device, ...]:
    """Read the table that ``npu-smi info`` prints.

    Two rows stand for a chip: number, name and health, then chip, bus and memory. On A2 a card has one chip and the
    card's number is the device; on A3 a card has two, and a column of its own (Phy-ID) says which device each is.
    """
    chips: list[_Chip] = []
    processes: list[tuple[int, int, str]] = []
    upper: tuple[int, str] | None = None
    in_processes = False
    for cells in _rows(text):
        if "Process id" in cells[1:2]:
            in_processes = True
        numbers = re.findall(r"\d+", cells[0]) if re.fullmatch(r"[\d\s]+", cells[0]) else []
        if in_processes:
            if len(numbers) == 2 and cells[1].isdigit():  # noqa: PLR2004 (NPU and chip)
                name = cells[2] or "?"
                processes.append((int(numbers[0]), int(numbers[1]), f"{name} ({cells[1]})"))
        elif numbers and upper is not None and len(cells) >= 3:  # noqa: PLR2004 (chip, bus, usage)
            chips.append(_chip(upper, [int(number) for number in numbers], cells[2]))
            upper = None
        elif match := re.fullmatch(r"(\d+)\s+(\S.*)", cells[0]):
            upper = (int(match[1]), match[2])
    return tuple(
        replace(chip.device, busy_by=tuple(who for npu, die, who in processes if (npu, die) == (chip.npu, chip.chip)))
        for chip in sorted(chips, key=lambda chip: chip.device.id)
    )


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("|") and stripped.endswith("|"):
            yield [cell.strip() for cell in stripped.strip("|").split("|")]


def _chip(upper: tuple[int, str], numbers: list[int], usage: str) -> _Chip:
    npu, name = upper
    pairs = [(int(used), int(total)) for used, total in re.findall(r"(\d+)\s*/\s*(\d+)", usage)]
    used, total = max(pairs, key=lambda pair: pair[1], default=(0, 0))  # on-board memory, not the card's DDR of 0 / 0
    device = Device(
        kind="npu",
        id=numbers[1] if len(numbers) > 1 else npu,
        name=name,
        memory_total=total * _MEBIBYTE,
        memory_used=used * _MEBIBYTE,
    )
    return _Chip(npu=npu, chip=numbers[0], device=device)


def _named(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).name()} ({pid})"
    except psutil.Error:
        return f"? ({pid})"  # in another container, or gone
