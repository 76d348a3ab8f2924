"""A digest of a model's weights that is cheap on an accelerator and the same on every side of a weight sync.

Each tensor is read as integers, multiplied by a fixed odd random number for each position and summed modulo 2**64
(multilinear hashing). That happens where the tensor is, in bounded pieces; only 8 bytes a piece reach the host. The
digest is the SHA-256 over name, shape, dtype and checksum of all tensors, sorted, so that the order in which they
arrive does not matter.

A changed element always changes the checksum, since an odd factor is invertible modulo 2**64; two swapped elements
do except by a chance of about 2**-32; swapped tensors, a missing tensor and another dtype change the list.
"""

import hashlib
import json

import numpy as np
import torch

PIECE = 1 << 22
"""Elements multiplied at a time: 32 MiB of factors, 32 MiB of products."""
_PIECE_FACTOR = 0x9E3779B97F4A7C15
"""Odd; combines the sums of a tensor's pieces, so that pieces cannot be swapped."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_factors: dict[torch.device, torch.Tensor] = {}


class WeightDigest:
    """Collects tensors one by one, then tells their digest."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, list[int], str, int]] = []

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Take in one tensor; nothing of it is kept."""
        entry = (name, list(tensor.shape), str(tensor.dtype).removeprefix("torch."), checksum(tensor))
        self._entries.append(entry)

    @property
    def tensors(self) -> int:
        """Return how many tensors were taken in."""
        return len(self._entries)

    def hexdigest(self) -> str:
        """Return the digest of all tensors taken in so far, whatever their order."""
        return hashlib.sha256(json.dumps(sorted(self._entries)).encode()).hexdigest()


def checksum(tensor: torch.Tensor) -> int:
    """Return the 64-bit checksum of one tensor's bits."""
    integers = tensor.detach().contiguous().reshape(-1)
    if integers.is_complex():
        integers = torch.view_as_real(integers).reshape(-1)
    integers = integers.view(_INTEGERS[integers.element_size()])
    try:
        return _checksum(integers)
    except (RuntimeError, NotImplementedError):
        if integers.device.type == "cpu":
            raise
        # A device without 64-bit integer arithmetic: the host computes the same checksum, more slowly.
        return _checksum(integers, host=True)


def _checksum(integers: torch.Tensor, *, host: bool = False) -> int:
    total = 0
    for piece in integers.split(PIECE):
        numbers = (piece.cpu() if host else piece).to(torch.int64)
        # Reading the sum waits for the device, so a buffer that the sender reuses is not overwritten too soon.
        total = (total * _PIECE_FACTOR + int((numbers * _factors_for(numbers)).sum())) % (1 << 64)
    return total


def _factors_for(numbers: torch.Tensor) -> torch.Tensor:
    """Return the factors of the first positions on the device of the numbers; made at need, in powers of two."""
    known = _factors.get(numbers.device)
    if known is None or len(known) < len(numbers):
        count = 1 << max(len(numbers) - 1, 1).bit_length()
        known = _factors[numbers.device] = torch.from_numpy(_random_odd_numbers(count)).to(numbers.device)
    return known[: len(numbers)]


def _random_odd_numbers(count: int) -> np.ndarray:
    """Return the first of a fixed sequence of odd 64-bit numbers.

    SplitMix64 (Steele, Lea, Flood 2014): each number follows from its index alone, whatever the library's version.
    """
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_PIECE_FACTOR)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((state ^ (state >> np.uint64(31))) | np.uint64(1)).view(np.int64)
