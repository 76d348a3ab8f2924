"""A small all-reduce, one process a device. Runs in the image's own Python: ``python3 collective.py BACKEND RANKS``."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MARK = "verl-e2e-collective "
_TIME_LIMIT_S = 180
_GRACE_S = 5
"""How long the others have once one has failed."""
_DEVICES = {"nccl": "cuda", "hccl": "npu", "gloo": "cpu"}
_RANK = """
import sys
import torch, torch.distributed as distributed
backend, device, rank, ranks, port = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
if device == "npu":
    import torch_npu
place = device if device == "cpu" else f"{device}:{rank}"
if device != "cpu":
    getattr(torch, device).set_device(rank)
distributed.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
sent = torch.full((1 << 20,), float(rank + 1), device=place)
distributed.all_reduce(sent)
wanted = ranks * (ranks + 1) / 2
assert bool((sent == wanted).all()), f"the sum is {sent[0].item()}, not {wanted}"
distributed.destroy_process_group()
"""


def main(words: Sequence[str]) -> None:
    """Print, on a line of its own, what went wrong, or nothing behind the mark."""
    backend, ranks = words[0], int(words[1])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        errors = [Path(folder, str(rank)) for rank in range(ranks)]
        processes = []
        for rank, path in enumerate(errors):
            argv = [sys.executable, "-c", _RANK, backend, _DEVICES[backend], str(rank), str(ranks), str(port)]
            with path.open("wb") as file:
                processes.append(subprocess.Popen(argv, stdout=file, stderr=file, env=dict(os.environ)))
        codes = _ended(processes)
        failed = [rank for rank, code in enumerate(codes) if code not in {0, None}]
        problems = [f"rank {rank}: {_reason(errors[rank])}" for rank in failed]
        # Ranks that wait for one that failed say nothing of their own.
        if not failed and None in codes:
            problems = [f"no answer within {_TIME_LIMIT_S} s"]
        print(f"\n{MARK}{'; '.join(problems)}", flush=True)


def _ended(processes: "list[subprocess.Popen[bytes]]") -> "list[int | None]":
    """Return every exit code, None for what was still running when the first one failed or the time was over."""
    deadline = time.monotonic() + _TIME_LIMIT_S
    while None in (codes := [process.poll() for process in processes]) and time.monotonic() < deadline:
        if any(codes):
            deadline = min(deadline, time.monotonic() + _GRACE_S)
        time.sleep(0.1)
    for process in processes:
        process.kill()
        process.wait()
    return codes


def _reason(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() or ["it says nothing"]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
