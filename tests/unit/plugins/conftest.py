"""A stand-in for verl, small enough to need no torch, that loads plug-ins as verl does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PLUGINS = Path(__file__).parents[3] / "ci" / "plugins"

FILES = {
    "verl/__init__.py": """
        import importlib, os
        for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(","):
            importlib.import_module(name)
    """,
    "verl/utils/__init__.py": "",
    "verl/utils/tracking.py": """
        class Tracking:
            logged = []
            def log(self, data, step, backend=None):
                self.logged.append((data, step, backend))
    """,
    "verl/checkpoint_engine/__init__.py": "from .base import CheckpointEngineRegistry",
    "verl/checkpoint_engine/base.py": """
        class CheckpointEngineRegistry:
            @classmethod
            def new(cls, backend, *args, **kwargs):
                return ENGINES[backend](**kwargs)
        ENGINES = {}
    """,
    "verl/workers/__init__.py": "",
    "verl/workers/rollout/__init__.py": "from .base import get_rollout_class",
    "verl/workers/rollout/base.py": """
        CLASSES = {}
        def get_rollout_class(name, mode="async"):
            return CLASSES[name]
    """,
    "verl/workers/rollout/llm_server.py": """
        class LLMServerManager:
            def __init__(self, config):
                self.config = config
        class LLMServerClient:
            async def generate(self, request_id, *, prompt_ids):
                if not prompt_ids:
                    raise ValueError("an empty prompt")
                return [*prompt_ids, 1]
    """,
    "verl/trainer/__init__.py": "",
    "verl/trainer/constants_ppo.py": "",
    "verl/trainer/ppo/__init__.py": "",
    "verl/trainer/ppo/v1/__init__.py": "",
    "verl/trainer/ppo/v1/trainer_base.py": """
        class PPOTrainer:
            def init(self):
                return "initialised"
            def fit(self, agent_loop_manager):
                return agent_loop_manager
    """,
}


def python(code: str, *, folder: Path, events: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with the plug-ins and what lies in the folder to be imported."""
    environment = {**os.environ, "PYTHONPATH": f"{PLUGINS}:{folder}", "VERL_USE_EXTERNAL_MODULES": "verl_observer"}
    environment.pop("VERL_E2E_EVENTS", None)
    if events is not None:
        environment["VERL_E2E_EVENTS"] = str(events)
    return subprocess.run(
        (sys.executable, "-c", textwrap.dedent(code)),
        capture_output=True, text=True, check=True, cwd=folder, env=environment, timeout=60,
    )  # fmt: skip


@pytest.fixture
def verl(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


@pytest.fixture
def observe(verl: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Run code with the observer loaded by the stand-in, and return the events it wrote."""

    def run(code: str) -> list[dict[str, Any]]:
        events = verl / "events.jsonl"
        python(code, folder=verl, events=events)
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        return [json.loads(line) for line in lines]

    return run
