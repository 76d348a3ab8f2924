"""A small verl: enough of its layout for what preflight reads, with the traits that matter."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

FILES = {
    "version/version": "9.9.9\n",
    "trainer/main_ppo.py": "import torch\n",
    "base_config.py": """
        from dataclasses import dataclass


        @dataclass
        class BaseConfig:
            _target_: str = ""
        """,
    "utils/config.py": """
        from hydra.utils import instantiate


        def omega_conf_to_dataclass(config, dataclass_type=None):
            return instantiate(config, _convert_="partial")


        def validate_config(config, use_reference_policy, use_critic):
            assert config.actor_rollout_ref.actor.ppo_mini_batch_size != 13, "thirteen brings bad luck"
        """,
    "workers/config/__init__.py": """
        import torch.distributed as dist
        from dataclasses import dataclass, field
        from typing import Optional

        from transformers import AutoConfig
        from verl.base_config import BaseConfig
        from verl.utils.model import load_weights


        @dataclass
        class EngineConfig(BaseConfig):
            strategy: str = "fsdp"
            fsdp_size: int = -1
            ulysses_sequence_parallel_size: int = 1

            def __post_init__(self):
                assert self.strategy in ["fsdp", "fsdp2"], f"strategy {self.strategy} not supported"


        @dataclass
        class ActorConfig(BaseConfig):
            strategy: str = "fsdp"
            ppo_mini_batch_size: int = 256
            use_dynamic_bsz: bool = False
            use_kl_loss: bool = False
            clip: Optional[float] = None
            fsdp_config: EngineConfig = field(default_factory=EngineConfig)

            def __post_init__(self):
                self.engine = self.fsdp_config
                self.engine.strategy = self.strategy


        @dataclass
        class CheckpointConfig(BaseConfig):
            backend: str = "naive"


        @dataclass
        class RolloutConfig(BaseConfig):
            name: str = "vllm"
            nnodes: int = 0
            n_gpus_per_node: int = 8
            tensor_model_parallel_size: int = 1
            log_prob_use_dynamic_bsz: bool = False
            checkpoint_engine: CheckpointConfig = field(default_factory=CheckpointConfig)
            engine_kwargs: dict = field(default_factory=dict)


        @dataclass
        class ModelConfig(BaseConfig):
            path: Optional[str] = None

            def __post_init__(self):
                raise RuntimeError("loads weights")
        """,
    "trainer/config/ppo_trainer.yaml": """
        defaults:
          - model_engine: dp
          - _self_
        algorithm: {adv_estimator: grpo, use_kl_in_reward: false}
        critic: {enable: null}
        data: {train_batch_size: 8, truncation: error}
        trainer:
          nnodes: 1
          n_gpus_per_node: 2
          total_epochs: 3
          val_before_train: true
          logger: [console]
          resume_mode: auto
          use_v1: true
          v1:
            trainer_mode: sync
            separate_async: {parameter_sync_step: 4}
            sampler: {max_off_policy_strategy: drop}
        reward:
          reward_manager: {source: register, name: naive}
          reward_model: {enable: false, enable_resource_pool: false, nnodes: 0, n_gpus_per_node: 8}
        distillation: {enabled: false}
        ray_kwargs: {ray_init: {num_cpus: null}}
        actor_rollout_ref:
          model: {_target_: verl.workers.config.ModelConfig, path: null}
          rollout:
            _target_: verl.workers.config.RolloutConfig
            name: vllm
            nnodes: 0
            n_gpus_per_node: 8
            tensor_model_parallel_size: 1
            log_prob_use_dynamic_bsz: ${actor_rollout_ref.actor.use_dynamic_bsz}
            engine_kwargs: {}
            checkpoint_engine: {_target_: verl.workers.config.CheckpointConfig, backend: naive}
        """,
    "trainer/config/model_engine/dp.yaml": """
        # @package _global_
        actor_rollout_ref:
          actor:
            _target_: verl.workers.config.ActorConfig
            strategy: fsdp
            ppo_mini_batch_size: 4
            use_dynamic_bsz: false
            use_kl_loss: false
            clip: null
            fsdp_config: {_target_: verl.workers.config.EngineConfig, strategy: fsdp, fsdp_size: -1}
        """,
    "trainer/ppo/v1/trainer_sync.py": """
        @register_trainer("sync")
        class Sync: ...
        @register_trainer("separate_async")
        class Separate: ...
        """,
    "trainer/ppo/v1/trainer_base.py": 'def resume(self):\n    return self.resume_mode == "auto"\n',
    "trainer/ppo/v1/replay_buffer.py": """
        class Buffer:
            def __init__(self, max_off_policy_strategy):
                self.max_off_policy_strategy = max_off_policy_strategy
                assert self.max_off_policy_strategy in ["drop", "wait"]
        """,
    "trainer/ppo/core_algos.py": """
        class AdvantageEstimator(str, Enum):
            GAE = "gae"
            GRPO = "grpo"

        @register_adv_est(AdvantageEstimator.GRPO)
        def grpo(): ...
        @register_adv_est("mine")
        def mine(): ...
        @register_policy_loss("vanilla")
        def vanilla(): ...
        def kl(kl_penalty):
            if kl_penalty in ("kl", "k1"): ...
        """,
    "utils/torch_functional.py": 'def cut(truncation):\n    assert truncation in ["left", "right", "error"]\n',
    "utils/tracking.py": 'class Tracking:\n    supported_backend = ["console", "wandb"]\n',
    "workers/engine/fsdp.py": """
        @EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cuda", "npu"])
        class Fsdp: ...
        @EngineRegistry.register(model_type="language_model", backend="megatron")
        class Megatron: ...
        """,
    "workers/rollout/replica.py": 'RolloutReplicaRegistry.register("vllm", load)\n',
    "workers/rollout/base.py": '_ROLLOUT_REGISTRY = {("vllm", "async"): "verl.somewhere"}\n',
    "checkpoint_engine/base.py": '@CheckpointEngineRegistry.register("naive")\nclass Naive: ...\n',
    "checkpoint_engine/nccl.py": '@CheckpointEngineRegistry.register("nccl")\nclass Nccl: ...\n',
    "experimental/reward_loop/reward_manager/naive.py": '@register("naive")\nclass Naive: ...\n',
    "experimental/agent_loop/single.py": '@register("single_turn_agent")\nclass Single: ...\n',
    "trainer/distillation/losses.py": """
        @register_distillation_loss(DistillationLossSettings(names=["k1", "k3"], use_estimator=True))
        def estimate(): ...
        """,
}


def write_fake_verl(root: Path) -> Path:
    """Write the tree and return the folder that contains the package."""
    for name, text in FILES.items():
        path = root / "verl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
    return root
