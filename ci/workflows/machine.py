"""Where scenarios run: an elastic machine that is made and always destroyed, or a fixed runner with a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ci.plan import Image
from ci.workflows.events import condition
from ci.workflows.group import Group
from ci.workflows.job import Job, scenario_job
from ci.workflows.settings import ElasticMachine, Pin, Settings
from ci.workflows.steps import uses
from ci.workflows.triggers import ELASTIC

_ELASTIC = Path(ELASTIC).stem
_ACTION = "volcengine/vemlp-github-runner"
_HOSTED_MINUTES = 20


def jobs_of(group: Group, settings: Settings, pins: dict[str, Pin], image: Image) -> dict[str, Job]:
    """Return a workflow's jobs: the scenarios one after another on one machine, with what makes and destroys it."""
    machine = settings.machines[group.first.accelerator]
    scenarios = {
        f"e2e_{name}": scenario_job(name, scenario, settings, pins, image) for name, scenario in group.scenarios.items()
    }
    if isinstance(machine, ElasticMachine):
        return _on_elastic_machine(group, scenarios, settings, image)
    jobs: dict[str, Job] = {}
    for name, job in scenarios.items():
        after = {"needs": list(jobs)[-1:]} if jobs else {}
        # the failure of one scenario says nothing about the next
        runs = f"!cancelled() && ({condition(group, settings)})" if jobs else condition(group, settings)
        jobs[name] = {"name": name, **after, "if": f"${{{{ {runs} }}}}", "runs-on": machine.runner, **job}
    return jobs


def _on_elastic_machine(group: Group, scenarios: dict[str, Job], settings: Settings, image: Image) -> dict[str, Job]:
    made, destroyed = f"{group.name}_machine", f"{group.name}_machine_destroyed"
    jobs: dict[str, Job] = {
        made: {
            "name": made,
            "if": f"${{{{ {condition(group, settings)} }}}}",
            "permissions": {},
            "uses": f"./{ELASTIC}",
            "with": {"mode": "create", "image": image.reference},
        }
    }
    before: list[str] = []
    for name, job in scenarios.items():
        # the failure of one scenario says nothing about the next
        unless = {"if": f"${{{{ !cancelled() && needs.{made}.result == 'success' }}}}"} if before else {}
        label = f"${{{{ needs.{made}.outputs.label }}}}"
        jobs[name] = {"name": name, "needs": [made, *before[-1:]], **unless, "runs-on": label, **job}
        before.append(name)
    jobs[destroyed] = {
        "name": destroyed,
        "needs": [made, *before],
        # also when it could not be made as a whole, and when the run was cancelled
        "if": f"${{{{ always() && needs.{made}.result != 'skipped' }}}}",
        "permissions": {},
        "uses": f"./{ELASTIC}",
        "with": {"mode": "destroy", "task": f"${{{{ needs.{made}.outputs.task }}}}"},
    }
    return jobs


def elastic_workflow(settings: Settings, pins: dict[str, Pin]) -> dict[str, Any]:
    """Return the workflow that the others call to make a machine from an image, and to destroy it.

    Raises:
        LookupError: when no machine of the settings is elastic.
    """
    service = next(m.service for m in settings.machines.values() if isinstance(m, ElasticMachine))
    hosted = {"runs-on": settings.hosted_runner, "timeout-minutes": _HOSTED_MINUTES, "permissions": {}}
    action = uses(_ACTION, pins)
    text = {"type": "string", "required": False, "default": ""}
    return {
        "name": _ELASTIC,
        "on": {
            "workflow_call": {
                "inputs": {
                    "mode": {"description": "create or destroy", "type": "string", "required": True},
                    "image": {"description": "image the machine is started from", **text},
                    "task": {"description": "the machine to destroy", **text},
                },
                "outputs": {
                    key: {"description": described, "value": f"${{{{ jobs.{_ELASTIC}_create.outputs.{key} }}}}"}
                    for key, described in (("label", "what its jobs run on"), ("task", "what it is destroyed by"))
                },
            }
        },
        "permissions": {},
        "jobs": {
            f"{_ELASTIC}_create": {
                "name": f"{_ELASTIC}_create",
                "if": "${{ inputs.mode == 'create' }}",
                **hosted,
                "outputs": {
                    "label": "${{ steps.create.outputs.runner-label }}",
                    "task": "${{ steps.create.outputs.mlp-task-id }}",
                },
                "steps": [
                    {
                        "name": "Create a machine",
                        "id": "create",
                        "uses": action,
                        "with": {"mode": "create", "faas-url": service, "mlp-image": "${{ inputs.image }}"},
                    }
                ],
            },
            f"{_ELASTIC}_destroy": {
                "name": f"{_ELASTIC}_destroy",
                "if": "${{ always() && inputs.mode == 'destroy' }}",
                **hosted,
                "steps": [
                    {
                        "name": "Destroy the machine",
                        "uses": action,
                        "with": {"mode": "destroy", "faas-url": service, "mlp-task-id": "${{ inputs.task }}"},
                    }
                ],
            },
        },
    }
