"""A workflow as the text of its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from ci.workflows.settings import FixedRunner, Pin, Settings

HEADER = "# Written by `inv workflows.generate` from ci/scenarios and ci/workflows/settings.yaml: change those instead."


class _Dumper(yaml.SafeDumper):
    """Block style throughout, lists indented, and scripts as literal blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  # PyYAML's name
        """Indent lists below their key, as people write workflows."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # PyYAML's name
        """Write every value out: GitHub's parser knows no anchors in older servers, and readers need none."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _represent_nothing(dumper: yaml.SafeDumper, _: None) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "")


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(type(None), _represent_nothing)


def workflow_text(workflow: Mapping[str, Any], pins: Mapping[str, Pin], remarks: Mapping[str, str]) -> str:
    """Return the file's text; `remarks` maps a value to the comment that stands behind it."""
    body = yaml.dump(dict(workflow), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    behind = {f"{action}@{pin.reference}": _remark(pin) for action, pin in pins.items()} | dict(remarks)
    lines = (_with_remark(line, behind) for line in body.splitlines())
    return "\n".join((HEADER, *lines, ""))


def _remark(pin: Pin) -> str:
    if pin.commit is not None:
        return pin.version
    return f"zizmor: ignore[unpinned-uses] {pin.unpinned}"


def _with_remark(line: str, behind: Mapping[str, str]) -> str:
    remark = behind.get(line.rpartition(": ")[2].strip())
    return f"{line} # {remark}" if remark else line


def actionlint_text(settings: Settings) -> str:
    """Return the text of actionlint's configuration, which has to know the runners that are not GitHub's own."""
    labels = sorted(machine.runner for machine in settings.machines.values() if isinstance(machine, FixedRunner))
    body = yaml.dump({"self-hosted-runner": {"labels": labels}}, Dumper=_Dumper, sort_keys=False)
    return f"{HEADER}\n{body}"
