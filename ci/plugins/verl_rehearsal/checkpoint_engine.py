"""Checkpoint engine ``gloo``: the trainer's first rank broadcasts its weights to every rollout rank.

Loaded by ``rollout.checkpoint_engine.custom_backend_module=verl_rehearsal.checkpoint_engine``.
"""

import asyncio
import pickle
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, NamedTuple

import ray
import torch
from torch.distributed import BroadcastOptions, PrefixStore, ProcessGroupGloo, TCPStore
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.utils import ensure_async_iterator

_TIMEOUT = timedelta(seconds=120)


class Rendezvous(NamedTuple):
    """Where the ranks of one weight sync meet."""

    host: str
    port: int
    sync: int
    """Counts the trainer's weight syncs: each has a process group of its own, as rollout ranks may come and go."""


@CheckpointEngineRegistry.register("gloo")
class GlooCheckpointEngine(CheckpointEngine):
    """Sends whole tensors, packed into buckets of about ``bucket_size`` bytes."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.bucket_size = bucket_size
        self.is_master = is_master
        self.rank = -1
        self._store: TCPStore | None = None
        self._group: ProcessGroupGloo | None = None
        self._syncs = 0

    def prepare(self) -> Rendezvous | None:
        """Return where to meet, on the master; None on every other rank."""
        if not self.is_master:
            return None
        host = ray.util.get_node_ip_address().strip("[]")
        if self._store is None:
            self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
        self._syncs += 1
        return Rendezvous(host, self._store.port, self._syncs)

    @classmethod
    def build_topology(
        cls, actor_world_size: int, rollout_world_size: int, metadata: list[Rendezvous | None]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Put the trainer's first rank and all rollout ranks into one group; the trainer's other ranks stay out."""
        size = 1 + rollout_world_size

        def same_for(ranks: list[int]) -> dict[str, list[Any]]:
            return {"rank": ranks, "world_size": [size] * len(ranks), "rendezvous": [metadata[0]] * len(ranks)}

        return same_for([0] + [-1] * (actor_world_size - 1)), same_for(list(range(1, size)))

    def init_process_group(self, rank: int, world_size: int, rendezvous: Rendezvous) -> None:
        """Connect this rank with the others; a negative rank has nothing to do."""
        self.rank = rank
        if rank < 0:
            return
        if self._store is None:
            self._store = TCPStore(rendezvous.host, rendezvous.port, is_master=False, timeout=_TIMEOUT)
        store = PrefixStore(f"sync-{rendezvous.sync}", self._store)
        self._group = ProcessGroupGloo(store, rank, world_size, _TIMEOUT)

    def finalize(self) -> None:
        """Leave the group."""
        self._group = None

    async def send_weights(self, weights: Any, **_version: int | None) -> dict[str, Any]:
        """Send all tensors; every rank of the trainer has to walk through them, since gathering one is collective."""
        bucket: list[tuple[str, torch.Tensor]] = []
        filled = 0
        async for name, weight in ensure_async_iterator(weights):
            if self.rank < 0:
                continue
            bucket.append((name, weight.detach()))
            filled += weight.nbytes
            if filled >= self.bucket_size:
                await asyncio.to_thread(self._send_bucket, bucket)
                bucket, filled = [], 0
        if self.rank >= 0:
            if bucket:
                await asyncio.to_thread(self._send_bucket, bucket)
            await asyncio.to_thread(self._send_bucket, [])  # the end
        return {}

    async def receive_weights(self, **_version: int | None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Yield the tensors as they come, each in memory of its own."""
        while bucket := await asyncio.to_thread(self._receive_bucket):
            for name, weight in bucket:
                yield name, weight

    def _send_bucket(self, bucket: list[tuple[str, torch.Tensor]]) -> None:
        header = pickle.dumps([(name, weight.dtype, weight.shape) for name, weight in bucket])
        content = [torch.frombuffer(bytearray(header), dtype=torch.uint8)]
        content += [weight.contiguous().reshape(-1).view(torch.uint8) for _, weight in bucket]
        packed = torch.cat(content)
        self._broadcast(torch.tensor([len(header), len(packed)]))
        self._broadcast(packed)

    def _receive_bucket(self) -> list[tuple[str, torch.Tensor]]:
        lengths = torch.zeros(2, dtype=torch.int64)
        self._broadcast(lengths)
        header_length, packed_length = lengths.tolist()
        packed = torch.empty(packed_length, dtype=torch.uint8)
        self._broadcast(packed)
        bucket, position = [], header_length
        for name, dtype, shape in pickle.loads(packed[:header_length].numpy().tobytes()):  # noqa: S301 - our own master
            length = shape.numel() * dtype.itemsize
            # A copy starts at an address that fits its dtype; a slice of the bucket need not.
            part = packed[position : position + length].clone()
            bucket.append((name, part.view(dtype).reshape(shape)))
            position += length
        return bucket

    def _broadcast(self, tensor: torch.Tensor) -> None:
        options = BroadcastOptions()
        options.rootRank = 0
        options.rootTensor = 0
        self._group.broadcast([tensor], options).wait()
