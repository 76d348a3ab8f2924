"""The job that runs a scenario: one line, and what has to surround it."""

from __future__ import annotations

import math
from typing import Any

from ci.plan import Image
from ci.scenarios.model import Scenario
from ci.workflows.settings import FixedRunner, Machine, Pin, Settings
from ci.workflows.steps import checkout, install_nox, link_folders, uses

Job = dict[str, Any]
INVOKE = ".nox/_nox_script_mode/bin/inv"


def scenario_job(name: str, scenario: Scenario, settings: Settings, pins: dict[str, Pin], image: Image) -> Job:
    """Return the job, without what ties it to other jobs."""
    machine = settings.machines[scenario.accelerator]
    job: Job = {"timeout-minutes": math.ceil(scenario.limits.time_minutes + settings.margin_minutes)}
    if scenario.quarantine is not None:
        job = {"name": f"e2e_{name} (in quarantine until {scenario.quarantine.until})", "continue-on-error": True} | job
    elif scenario.tier == "extended":
        job["continue-on-error"] = "${{ github.event_name == 'pull_request' }}"
    job["permissions"] = {"contents": "read"}
    if isinstance(machine, FixedRunner):
        job["container"] = {"image": image.reference, "options": f"--shm-size {machine.shared_memory}"}
    job["env"] = settings.environment.get("all", {}) | settings.environment.get(scenario.accelerator, {})
    job["steps"] = _steps(name, scenario, settings, pins, machine)
    return job


def _steps(
    name: str, scenario: Scenario, settings: Settings, pins: dict[str, Pin], machine: Machine
) -> list[dict[str, Any]]:
    links = machine.links if isinstance(machine, FixedRunner) else {}
    return [
        checkout("Check out the suite", settings.suite, pins),
        *([] if settings.in_verl else [checkout("Check out verl", settings.verl, pins, path="verl")]),
        *([link_folders(links)] if links else []),
        install_nox(settings.nox, machine.installer),
        {"name": f"Run e2e_{name}", "run": f"exec nox -s e2e_{name} -- --target {scenario.accelerator}"},
        {"name": "Report", "if": "always()", "run": _if_made("workflows.summary")},
        {"name": "Reap what is left over", "if": "always()", "run": _if_made("workflows.reap")},
        {
            "name": "Keep the run",
            "if": "always()",
            "uses": uses("actions/upload-artifact", pins),
            "with": {
                "name": f"e2e_{name}-${{{{ github.run_attempt }}}}",
                "path": "runs/\n!runs/latest\n",
                "retention-days": settings.retention_days,
            },
        },
    ]


def _if_made(task: str) -> str:
    # Nox makes the suite's environment at its first start; a job that ended before has nothing to report or reap.
    return f"if [ -x {INVOKE} ]; then {INVOKE} {task}; fi"
