"""Rollout engine ``transformers``: a server that generates with the model that transformers makes on the CPU.

`TransformersServer` is the engine's process, `TransformersReplica` what verl's trainer sees of it, and `ServerAdapter`
the side that training ranks and checkpoint engines hand weights to. A replica has one server however many ranks it
counts: the ranks take part in the weight sync, and the first one hands the weights over.
"""

import os
import sys
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutMode, RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

from verl_rehearsal.generation import Gate, Model


class TransformersServer:
    """One replica's engine, a Ray actor; requests take turns token by token."""

    def __init__(self, config: Any, model_path: str, replica_rank: int, mode: str) -> None:
        torch.set_num_threads(1)
        self._config = config
        self._replica_rank = replica_rank
        self._sleeps = mode == RolloutMode.HYBRID.value and config.free_cache_engine
        self._kind = "colocated" if mode == RolloutMode.HYBRID.value else "checkpoint_engine"
        self._model = Model(model_path, dtype=getattr(torch, config.dtype), seed=config.seed + 1 + replica_rank)
        self._gate = Gate()
        self._version: int | None = None

    def address(self) -> str:
        """Return what tells this server from others; requests come through Ray, and nothing listens there."""
        return f"{ray.util.get_node_ip_address()}:{self._replica_rank}"

    async def generate(self, prompt_ids: list[int], sampling_params: dict[str, Any], **_kwargs: Any) -> TokenOutput:
        """Return the tokens that follow a prompt, up to the end of sequence, the limit, or an abort."""
        try:
            return await self._generate(list(prompt_ids), sampling_params)
        except Exception as error:
            # verl's agent loop gives the prompt up and asks for another, for ever, and says so in its log alone.
            print(
                f"[verl_rehearsal] rollout server {self._replica_rank} failed: {type(error).__name__}: {error}",
                file=sys.stderr,
                flush=True,
            )
            raise

    async def _generate(self, prompt: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        tokens: list[int] = []
        log_probs: list[float] = []
        stop_reason = "aborted"
        if await self._gate.enter():
            try:
                limit = self._limit(prompt, sampling_params)
                async for token, log_prob in self._model.tokens(prompt, sampling_params, limit):
                    tokens.append(token)
                    log_probs.append(log_prob)
                    if self._gate.aborting:
                        break
                else:
                    stop_reason = "completed"
            finally:
                self._gate.leave()
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probs if sampling_params.get("logprobs") else None,
            stop_reason=stop_reason,
            extra_fields={"global_steps": self._version},
        )

    def _limit(self, prompt: list[int], sampling_params: dict[str, Any]) -> int:
        """Return how many tokens may follow, as the caller or else the configuration says."""
        asked = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens")
        length = self._config.response_length
        return asked or max(1, min(length, self._config.prompt_length + length - len(prompt)))

    async def load_weights(self, weights: list[tuple[str, torch.Tensor]], version: int | None) -> None:
        """Hold these weights from now on, and report the digest of all that is held."""
        self._model.load(weights)
        if version is not None:
            self._version = version
        self._model.report(version=version, replica=self._replica_rank, kind=self._kind)

    async def abort_all_requests(self, reject_request: bool = False, **_kwargs: Any) -> dict[str, Any]:
        """Stop generating; later requests wait for `resume_generation`, or are turned away when told so."""
        return {"aborted_count": await self._gate.abort(reject=reject_request), "request_ids": []}

    async def resume_generation(self) -> None:
        """Take requests again."""
        self._gate.resume()

    async def sleep(self) -> None:
        """Give up the weights once no request needs them, as an engine that shares its device with training does."""
        if self._sleeps:
            await self._gate.fall_asleep()
            self._model.spoil()

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Take requests again; an engine wakes its weights first, and its cache once they are right."""
        if self._sleeps and (tags is None or "kv_cache" in tags):
            self._gate.wake_up()

    async def _nothing(self, *_args: Any, **_kwargs: Any) -> None:
        """A cache lives as long as its request, and there is no profiler."""

    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = _nothing


class TransformersReplica(RolloutReplica):
    """A replica with one server, standalone or sharing its place with the trainer."""

    async def launch_servers(self) -> None:
        """Start the server."""
        server = ray.remote(TransformersServer).options(
            name=_server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency
        )
        handle = server.remote(self.config, self.model_config.path, self.replica_rank, self.rollout_mode.value)
        self.servers = [handle]
        self._server_handle = handle
        self._server_address = await handle.address.remote()


class ServerAdapter(BaseRollout):
    """Hands weights from a training rank or a checkpoint engine to the server of its replica."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        ranks_per_replica = (
            self.config.tensor_model_parallel_size
            * self.config.data_parallel_size
            * self.config.pipeline_model_parallel_size
        )
        self.replica_rank = rank // ranks_per_replica if replica_rank == -1 else replica_rank
        self.is_leader_rank = rank % ranks_per_replica == 0

    async def resume(self, tags: list[str]) -> None:
        """Wake the server's weights or cache."""
        if self.is_leader_rank:
            await self._server().wake_up.remote(tags=tags)

    async def release(self) -> None:
        """Put the server to sleep."""
        if self.is_leader_rank:
            await self._server().sleep.remote()

    async def update_weights(
        self, weights: Any, global_steps: int | None = None, wire_format: str = "named_tensors", **_kwargs: Any
    ) -> None:
        """Hand all weights to the server.

        Raises:
            NotImplementedError: the weights come as anything but whole tensors.
        """
        if wire_format != "named_tensors":
            raise NotImplementedError(f"the transformers rollout loads whole tensors, not {wire_format}")
        held = [(name, weight.detach()) async for name, weight in ensure_async_iterator(weights)]
        if self.is_leader_rank:
            await self._server().load_weights.remote(held, global_steps)

    def _server(self) -> Any:
        return ray.get_actor(_server_name(self.replica_rank))


def _server_name(replica_rank: int) -> str:
    return f"transformers_server_{replica_rank}"
