"""Steps that several jobs have."""

from __future__ import annotations

import shlex
from typing import Any, Literal

from ci.workflows.settings import Checkout, Pin

Step = dict[str, Any]


def uses(action: str, pins: dict[str, Pin]) -> str:
    """Return the action at its pin."""
    return f"{action}@{pins[action].reference}"


def checkout(name: str, source: Checkout, pins: dict[str, Pin], *, path: str | None = None, depth: int = 1) -> Step:
    """Check out a repository, and leave no token behind."""
    options: dict[str, Any] = {"persist-credentials": False}
    if source.repository is not None:
        options["repository"] = source.repository
        # the input is empty unless somebody starts the workflow by hand
        options["ref"] = f"${{{{ inputs.verl || '{source.ref}' }}}}" if path == "verl" else source.ref
    if path is not None:
        options["path"] = path
    if depth != 1:
        options["fetch-depth"] = depth
    return {"name": name, "uses": uses("actions/checkout", pins), "with": options}


def install_nox(version: str, installer: Literal["uv", "pip"]) -> Step:
    """Put nox, and nothing else, in front of PATH: the image's own python3 must stay the one that is found."""
    lines: tuple[str, ...]
    match installer:
        case "uv":
            lines = (
                f'UV_TOOL_DIR="$RUNNER_TEMP/tools" UV_TOOL_BIN_DIR="$RUNNER_TEMP/bin" uv tool install nox=={version}',
            )
        case "pip":
            lines = (
                'python3 -m venv "$RUNNER_TEMP/nox"',
                f'"$RUNNER_TEMP/nox/bin/python" -m pip install --quiet nox=={version}',
                'mkdir -p "$RUNNER_TEMP/bin"',
                'ln -sf "$RUNNER_TEMP/nox/bin/nox" "$RUNNER_TEMP/bin/nox"',
            )
    return {"name": "Install nox", "run": _script(*lines, 'echo "$RUNNER_TEMP/bin" >> "$GITHUB_PATH"')}


def link_folders(links: dict[str, str]) -> Step:
    """Make folders of the machine appear in the home folder, however often."""
    # -n and -T: a second run replaces the link instead of making one inside the folder it points to
    lines = (f'ln -sfnT {shlex.quote(target)} "$HOME"/{shlex.quote(name)}' for name, target in links.items())
    return {"name": "Link the machine's folders", "run": _script(*lines)}


def _script(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)
