"""Plans of fake trainers, for both engines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ci.plan import Image, Layout, Mount, Plan, Verl
from ci.scenarios.model import Facts, FiniteCheck, MetricCheck, StepsCheck, WeightSyncsCheck

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
CHECKS = {
    "steps": StepsCheck(kind="steps", at_least=2),
    "weight_syncs": WeightSyncsCheck(kind="weight_syncs", at_least=2),
    "finite": FiniteCheck(kind="finite"),
    "trained": MetricCheck(kind="metric", metric="perf/total_num_tokens", above="0", because="it has to train"),
}


def fake_image(reference: str, *, digest: str | None = None) -> Image:
    """Return an image of this engine as a plan names it."""
    return Image(
        name="fake",
        reference=reference,
        digest=digest,
        verified=digest is not None,
        content_hash=None,
        capabilities=(),
        doubts=(),
    )


def plan(*behaviour: str, image: str | None = None, **changes: Any) -> Plan:
    """Return a plan for the host, or for Docker when an image is named."""
    return Plan(
        **{
            "scenario": "fake",
            "summary": "a fake trainer",
            "target": "cpu",
            "engine": "host" if image is None else "docker",
            "rehearsal": True,
            "verl": Verl(kind="release", name="0.9.1"),
            "knobs": {},
            "layout": Layout(devices=0, colocated=True, roles=()),
            "launcher": (sys.executable if image is None else "python3",),
            "module": "fake_trainer",
            "overrides": behaviour,
            "arguments": (),
            "environment": {"PYTHONPATH": str(PROGRAMS), "PYTHONUNBUFFERED": "1"},
            "working_directory": None,
            "image": image and fake_image(image),
            "strict": False,
            "mounts": (Mount(path=str(PROGRAMS), read_only=True),) if image else (),
            "devices": 0,
            "steps": (),
            "models": {},
            "data_files": (),
            "needs": (),
            "facts": Facts(),
            "checks": CHECKS,
            "time_limit_s": 60.0,
            "stall_limit_s": 60.0,
            "keep": False,
            "preflight_only": None,
            "reproduce": "nox -s e2e_fake",
            **changes,
        }
    )
