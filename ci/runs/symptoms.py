"""Texts in a log that say whose fault a failure is. The table is in order: what is more certain comes first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ci.errors import FailureClass


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """Texts to look for, and what any of them means."""

    pattern: re.Pattern[str]
    failure_class: FailureClass
    remedy: str


def _symptom(failure_class: FailureClass, remedy: str, *texts: str) -> Symptom:
    return Symptom(pattern=re.compile("|".join(texts)), failure_class=failure_class, remedy=remedy)


SYMPTOMS: tuple[Symptom, ...] = (
    _symptom(
        "product",
        "the scenario needs more device memory than it had: lower ROLLOUT_GPU_MEMORY_UTILIZATION or the token limits, "
        "and see that nobody else uses the devices",
        r"(?:CUDA|NPU) out of memory",
        r"torch\.(?:cuda\.)?OutOfMemoryError",
        r"CUDA error: out of memory",
    ),
    _symptom(
        "device",
        "the rollout engine found too little free device memory: another process holds some (nvidia-smi), or "
        "ROLLOUT_GPU_MEMORY_UTILIZATION asks for more than there is",
        r"Free memory on device .{0,80} is less than desired GPU memory utilization",
        r"No available memory for the cache blocks",
    ),
    _symptom(
        "device",
        "shared memory is too small: `df -h /dev/shm`; a container needs a larger shm size",
        r"insufficient shared memory",
        r"unable to (?:write to|resize|mmap|allocate) (?:file </torch_|shared memory|.{0,40}/dev/shm)",
        r"Error while creating shared memory segment",
        r"OSError: \[Errno 28\] No space left on device: '/dev/shm",
    ),
    _symptom(
        "device",
        "a disk is full: `df -h` names it; /dev/shm counts, too, and grows with the container's shm size",
        r"No space left on device",
        r"Disk quota exceeded",
        r"\[Errno (?:28|122)\]",
    ),
    _symptom(
        "device",
        "the NPU is busy (-8005): wait until `npu-smi info` shows no process of somebody else, or use other devices",
        r"(?<!\d)-8005\b",
        r"(?i:error ?code:? ?-?8005)",
    ),
    _symptom(
        "device",
        "the GPU or its driver does not work: `nvidia-smi` on the host, then the container's device options",
        r"no NVIDIA driver on your system",
        r"CUDA driver version is insufficient",
        r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device|No CUDA GPUs are available",
        r"uncorrectable ECC error",
        r"CUDA error: system not yet initialized",
        r"all CUDA-capable devices are busy or unavailable",
        r"NVML.{0,40}(?:Driver/library version mismatch|Unknown Error)",
        r"NVRM: Xid|GPU has fallen off the bus",
    ),
    _symptom(
        "device",
        "the NPU or its driver does not work: `npu-smi info` on the host; /usr/local/Ascend/driver has to be mounted",
        r"dcmi (?:model|module) initialize failed",
        r"aclrtSetDevice.{0,80}(?:fail|error)",
        r"drvDeviceOpen.{0,80}fail",
        r"Failed to obtain the SOC version",
    ),
    _symptom(
        "device",
        "the collective between NPUs failed: `hccn_tool -i N -link -g` shows the links, HCCL_CONNECT_TIMEOUT the wait",
        r"HCCL.{0,80}(?i:error|fail|timeout)",
        r"\bEI00\d\d\b",
        r"[Hh]ccl(?:CommInit\w*|AllReduce|Broadcast|AllGather).{0,80}(?i:error|fail)",
    ),
    _symptom(
        "product",
        "a collective waited for a rank that never came: what kept that rank stands further up",
        r"Watchdog caught collective operation timeout",
        r"ProcessGroup(?:NCCL|HCCL|Gloo).{0,200}(?i:timed? ?out)",
        r"Timed out waiting \d+ms for (?:recv|send) operation",
    ),
    _symptom(
        "device",
        "the collective between GPUs failed: NCCL_DEBUG=INFO shows which link; small shared memory looks the same",
        r"NCCL error",
        r"nccl(?:SystemError|UnhandledCudaError|InternalError|RemoteError)",
    ),
    _symptom(
        "product",
        "a kernel failed: CUDA_LAUNCH_BLOCKING=1 shows which one",
        r"CUDA error: (?:device-side assert|an illegal memory access|misaligned address|unspecified launch failure)",
    ),
    _symptom(
        "network",
        "a host name could not be resolved: see DNS and proxy; models and data can also be given as local paths",
        r"Temporary failure in name resolution",
        r"Name or service not known",
        r"Could not resolve host",
        r"Failed to resolve '",
        r"NameResolutionError",
    ),
    _symptom(
        "network",
        "a hub or an index could not be reached: see proxy and mirrors (HF_ENDPOINT, PIP_INDEX_URL)",
        r"We couldn't connect to 'https?://",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|Cannot reach https?://",
        r"Max retries exceeded with url|ReadTimeoutError|ConnectTimeout|ProxyError|CERTIFICATE_VERIFY_FAILED",
        r"(?:429 Client|50[0234] Server) Error",
        r"Failed to (?:fetch|download).{0,40}https?://",
        r"error sending request for url",
        r"Connection to \S{1,200} timed out",
    ),
    _symptom(
        "config",
        "the hub refused, or does not know, what was asked for: see name, HF_TOKEN, or the local path",
        r"40[134] Client Error",
        r"GatedRepoError|RepositoryNotFoundError",
        r"is not a local folder and is not a valid model identifier",
        r"HFValidationError",
    ),
    _symptom(
        "config",
        "verl's configuration does not take an override: `nox -s preflight -- NAME` names it and the nearest key",
        r"^hydra\.errors\.|^omegaconf\.errors\.",
        r"Could not override '",
        r"Could not append to config",
        r"Key '.{1,200}' is not in struct",
        r"ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|InterpolationKeyError",
        r"mismatched input '|no viable alternative at input '|extraneous input '",
        r"In '.{1,200}': Could not find '|You must specify '",
    ),
    _symptom(
        "device",
        "the machine ran out of memory and a process was killed: use a machine with more, or fewer workers",
        r"(?:killed|was killed) due to (?:the node running low on )?memory",
        r"Workers \(tasks / actors\) killed due to memory pressure",
        r"The node was (?:running low on memory|under memory pressure)",
        r"Out of memory: Killed process",
        r"Worker unexpectedly exits .{0,200}OOM killer",
        r"killed by SIGKILL by OOM killer due to high memory usage",
    ),
    _symptom(
        "device",
        "the machine had no memory left: `free -g`, and the limits of the container",
        r"^MemoryError\b",
        r"Cannot allocate memory|\[Errno 12\]",
        r"std::bad_alloc",
    ),
    _symptom(
        "device",
        "a limit of the machine was reached: `ulimit -n`, `ulimit -u`, and the pids limit of the container",
        r"Too many open files|\[Errno 24\]",
        r"can't start new thread",
        r"Resource temporarily unavailable",
    ),
    _symptom(
        "device",
        "a port was taken by another process: run again; `ss -ltnp` shows who has it",
        r"Address already in use|\[Errno 98\]",
    ),
    _symptom(
        "device",
        "Ray sees fewer devices than the layout needs: compare the ids in run.json with what the processes can see",
        r"Total available (?:GPUs|NPUs|accelerators) .{0,40}is less than total desired",
        r"Please check at least .{1,20} gpus available",
    ),
    _symptom(
        "image",
        "the environment lacks a package, or has one that does not fit: compare it with what the image states",
        r"ModuleNotFoundError: No module named",
        r"ImportError: (?:cannot import name|lib\S{1,100}\.so)",
        r"undefined symbol: ",
        r"version `(?:GLIBC|GLIBCXX|CXXABI)_\S{1,40}' not found",
    ),
    _symptom(
        "image",
        "the program is not in the environment: see the image, its platform, and the launcher in the plan",
        r"^cannot start ",
        r"executable file not found|[Ee]xec format error",
        r"\[FATAL tini \(\d+\)\] exec \S+ failed",  # the init process of the docker engine's containers
        r"failed to exec pid1: ",  # podman's
    ),
)
