"""The model behind the rollout server, and the gate that its requests pass."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from verl_observer.digest import WeightDigest
from verl_observer.weights import emit_weights


class Model:
    """A causal language model that starts with weights of its own, which only a weight sync makes right."""

    def __init__(self, path: str, *, dtype: torch.dtype, seed: int) -> None:
        config = AutoConfig.from_pretrained(path)
        self._seed = seed
        self._model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype).eval()
        self._weights = dict(self._model.named_parameters(remove_duplicate=False))
        self._seen: Counter[tuple[int, ...]] = Counter()
        ends = config.eos_token_id
        self._ends = set(ends) if isinstance(ends, list) else {ends}
        self.spoil()

    def spoil(self) -> None:
        """Replace all weights by random numbers."""
        generator = torch.Generator().manual_seed(self._seed)
        with torch.no_grad():
            for weight in self._weights.values():
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.02)

    def load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Hold the given tensors exactly as they are, so that what is held can be compared with what was sent.

        Raises:
            ValueError: a tensor does not belong to the model, or has another shape.
        """
        wrong = [name for name, new in weights if name not in self._weights or self._weights[name].shape != new.shape]
        if wrong:
            raise ValueError(f"weights that the rollout's model does not have in this shape: {', '.join(wrong)}")
        for name, new in weights:
            self._weights[name].data = new.clone()

    def report(self, **facts: Any) -> None:
        """Report the digest of the weights that are held now."""
        digest = WeightDigest()
        for name, weight in self._weights.items():
            digest.add(name, weight)
        emit_weights(digest, side="rollout", **facts)

    async def tokens(
        self, prompt: list[int], sampling_params: dict[str, Any], limit: int
    ) -> AsyncIterator[tuple[int, float]]:
        """Yield token after token with its log-probability, and let other requests run in between."""
        generator = self._generator(tuple(prompt))
        step, cache = torch.tensor([prompt]), None
        for _ in range(limit):
            with torch.inference_mode():
                output = self._model(input_ids=step, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            token, log_prob = _sample(output.logits[0, -1].float(), sampling_params, generator)
            yield token, log_prob
            if token in self._ends and not sampling_params.get("ignore_eos"):
                return
            step = torch.tensor([[token]])
            await asyncio.sleep(0)

    def _generator(self, prompt: tuple[int, ...]) -> torch.Generator:
        """Return random numbers that depend on the prompt and on how often it came, not on who came first."""
        key = f"{self._seed} {self._seen[prompt]} {prompt}"
        self._seen[prompt] += 1
        return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]))


def _sample(logits: torch.Tensor, sampling_params: dict[str, Any], generator: torch.Generator) -> tuple[int, float]:
    """Draw one token; its log-probability is that of the whole vocabulary at this temperature, as vLLM reports it."""
    temperature = sampling_params.get("temperature", 1.0)
    log_probs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    if temperature == 0:
        token = int(log_probs.argmax())
    else:
        probabilities = _restricted(log_probs.exp(), sampling_params)
        token = int(torch.multinomial(probabilities, 1, generator=generator))
    return token, float(log_probs[token])


def _restricted(probabilities: torch.Tensor, sampling_params: dict[str, Any]) -> torch.Tensor:
    """Keep the ``top_k`` likeliest tokens, and of those the likeliest that make up ``top_p``."""
    ordered, tokens = probabilities.sort(descending=True)
    kept = ordered.cumsum(0) - ordered <= sampling_params.get("top_p", 1.0)
    if (top_k := sampling_params.get("top_k", -1)) > 0:
        kept[top_k:] = False
    return torch.zeros_like(probabilities).scatter(0, tokens, ordered * kept)


class Gate:
    """Lets requests in, stops them, and tells when none is left; it is open at first."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._inside = 0
        self._rejecting = False
        self._asleep = False
        self.aborting = False

    async def enter(self) -> bool:
        """Wait until requests are let in; False when they are turned away instead."""
        while not self._open.is_set():
            if self._rejecting:
                return False
            await self._open.wait()
        self._inside += 1
        self._idle.clear()
        return True

    def leave(self) -> None:
        """Note that a request is done."""
        self._inside -= 1
        if not self._inside:
            self._idle.set()

    async def abort(self, *, reject: bool) -> int:
        """Stop all requests and let none in; return how many were stopped."""
        self.aborting, self._rejecting = True, reject
        stopped = self._inside
        self._set()
        await self._idle.wait()
        return stopped

    def resume(self) -> None:
        """Let requests in again, unless the server sleeps."""
        self.aborting = self._rejecting = False
        self._set()

    async def fall_asleep(self) -> None:
        """Let the requests inside finish, and none in."""
        self._asleep = True
        self._set()
        await self._idle.wait()

    def wake_up(self) -> None:
        """Let requests in again, unless they are stopped."""
        self._asleep = False
        self._set()

    def _set(self) -> None:
        if self.aborting or self._asleep:
            self._open.clear()
        else:
            self._open.set()
