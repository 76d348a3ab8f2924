"""When a workflow starts."""

from __future__ import annotations

from typing import Any

from ci.workflows.group import Group
from ci.workflows.settings import Settings

_LABEL_TYPES = ["opened", "synchronize", "reopened", "labeled"]


def events(group: Group, settings: Settings, *, minute: int) -> dict[str, Any]:
    """Return the workflow's ``on``.

    Whatever the cadence, a pull request that changes how a scenario runs starts it.
    """
    filters = [*group.triggers, *group.files]
    branches = list(settings.branches)
    starts: dict[str, Any] = {"workflow_dispatch": _dispatch(settings)}
    match group.first.cadence:
        case "pull_request":
            starts["push"] = {"branches": branches, "paths": filters}
            starts["pull_request"] = {"branches": branches, "paths": filters}
        case "nightly" | "weekly" as cadence:
            schedule = settings.schedules[cadence]
            starts["schedule"] = [{"cron": f"{minute} {schedule.hour} * * {schedule.days}"}]
            starts["pull_request"] = {"branches": branches, "paths": list(group.files)}
        case "label":
            starts["pull_request"] = {"branches": branches, "types": _LABEL_TYPES}
    return starts


def condition(group: Group, settings: Settings) -> str:
    """Return when the workflow's first job runs: in the owner's repositories, by label where that is the cadence."""
    owned = f"github.repository_owner == '{settings.repository_owner}'"
    if group.first.cadence != "label":
        return owned
    label = f"contains(github.event.pull_request.labels.*.name, '{group.name}')"
    return f"{owned} && (github.event_name != 'pull_request' || {label})"


def _dispatch(settings: Settings) -> dict[str, Any] | None:
    if settings.verl.repository is None:
        return None
    described = {"description": "Branch, tag or commit of verl to test", "type": "string", "default": settings.verl.ref}
    return {"inputs": {"verl": described}}
