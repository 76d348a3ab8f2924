"""Plans for tests, made without looking at the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.images.identity import Identity
from ci.options import Options
from ci.plan import Image, Plan
from ci.planning import Surroundings, plan_for
from ci.scenarios.catalogue import load

IMAGES = {
    name: Image(
        name=name,
        reference=f"registry.invalid/verl-e2e/{name}@sha256:{'0' * 64}",
        digest=f"sha256:{'0' * 64}",
        verified=True,
        content_hash="1" * 12,
        capabilities=capabilities,
        doubts=(),
    )
    for name, capabilities in {
        "cuda": ("vllm", "fsdp", "megatron", "nccl"),
        "ascend": ("vllm", "fsdp", "megatron", "hccl"),
        "cpu": ("fsdp",),
    }.items()
}

IDENTITY = Identity(
    name="cuda",
    content_hash="1" * 12,
    source_commit="abc",
    base="base",
    environment={
        "PATH": "/opt/verl/bin:/usr/bin",
        "PYTHONPATH": "/workspace/Megatron-LM",
        "UV_PROJECT_ENVIRONMENT": "/opt/verl",
    },
    versions={},
)


def plan_of(
    name: str, options: Options | None = None, *, environment: Mapping[str, str] | None = None, **surroundings: Any
) -> Plan:
    values: dict[str, Any] = {
        "environment": {"HOME": "/home/ci", **(environment or {})},
        "machine": "cpu",
        "inside": None,
        "cache": Path("/home/ci/.cache/verl-e2e"),
        "images": IMAGES,
    }
    return plan_for(name, options or Options(), catalogue=load(), surroundings=Surroundings(**(values | surroundings)))
