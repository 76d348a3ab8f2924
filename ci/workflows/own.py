"""The workflow of this project itself: its tests, and the data it keeps."""

from __future__ import annotations

from typing import Any

from ci.workflows.job import INVOKE
from ci.workflows.settings import Checkout, Pin, Settings
from ci.workflows.steps import checkout, install_nox

_TESTS_MINUTES = 60
_DATA_MINUTES = 20


def own_workflow(settings: Settings, pins: dict[str, Pin]) -> dict[str, Any]:
    """Return the workflow: every change is tested, and every night the dates and pins are looked at again."""
    here = Checkout()
    nightly = settings.schedules["nightly"]
    hosted = {"runs-on": settings.hosted_runner, "permissions": {"contents": "read"}}
    checks = ("scenarios.check", "scenarios.budget", "workflows.check", "coverage.check")
    return {
        "name": "suite",
        "on": {
            "workflow_dispatch": None,
            "schedule": [{"cron": f"3 {nightly.hour} * * {nightly.days}"}],
            "push": {"branches": list(settings.branches)},
            "pull_request": None,
        },
        "concurrency": {
            "group": "${{ github.workflow }}-${{ github.event.pull_request.number || github.run_id }}",
            "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
        },
        "permissions": {},
        "defaults": {"run": {"shell": "bash"}},
        "jobs": {
            "suite_tests": {
                "name": "suite_tests",
                **hosted,
                "timeout-minutes": _TESTS_MINUTES,
                "steps": [
                    checkout("Check out the suite", here, pins),
                    # it brings Debian packages that the tests need
                    {"name": "Lint, check types, test", "run": "exec sudo .ci/run"},
                ],
            },
            "suite_data": {
                "name": "suite_data",
                **hosted,
                "timeout-minutes": _DATA_MINUTES,
                "steps": [
                    checkout("Check out the suite", here, pins, depth=0),
                    install_nox(settings.nox, "pip"),
                    {"name": "Make the suite's environment", "run": "nox --list > /dev/null"},
                    *({"name": task, "if": "${{ !cancelled() }}", "run": f"exec {INVOKE} {task}"} for task in checks),
                    {
                        "name": "images.check",  # asks registries, which a pull request should not depend on
                        "if": "${{ !cancelled() && github.event_name != 'pull_request' }}",
                        "run": f"exec {INVOKE} images.check",
                    },
                    {
                        "name": "No coverage is lost",
                        "if": "${{ !cancelled() && github.event_name == 'pull_request' }}",
                        "env": {"BASE": "${{ github.base_ref }}"},
                        "run": f'exec {INVOKE} coverage.check --base "origin/$BASE"',
                    },
                ],
            },
        },
    }
