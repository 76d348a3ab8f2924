"""The shell scripts that workflows run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ci.workflows.audit.finding import Finding
from ci.workflows.audit.repository import Repository
from ci.workflows.audit.shell import commands_of

_SETTINGS = frozenset(
    {"set", "shopt", "export", "declare", "local", "readonly", "unset", "echo", "printf", "ulimit", "exit"}
    | {"fi", "done", "esac", "}", "[", "[[", "((", ":", "true"}
)
"""What a script does besides its work; it cannot fail in a way that matters."""
_STOPS = re.compile(r"^\s*set\s+(?:-[a-zA-Z]+\s+)*-(?:[a-zA-Z]*e[a-zA-Z]*|[a-zA-Z]*o\s+errexit)\b", re.MULTILINE)
_SHEBANG = re.compile(r"#!.*\s-[a-zA-Z]*e[a-zA-Z]*\s*$")


def scripts_without_set_e(repository: Repository) -> Iterator[Finding]:
    """Yield scripts of several commands in which a command may fail unnoticed, with the workflows that run them."""
    users: dict[str, list[str]] = {}
    for use in repository.uses:
        for script in repository.reached(use.script) if use.script.endswith(".sh") else ():
            users.setdefault(script, []).append(use.workflow.path.rpartition("/")[2])
    for script, workflows in users.items():
        text = repository.text(script)
        if _STOPS.search(text) or _SHEBANG.match(text.partition("\n")[0]) or _work(text) <= 1:
            continue
        message = f"goes on after a command that failed; run by {', '.join(sorted(set(workflows)))}"
        yield Finding(rule="script-without-set-e", file=script, line=1, message=message)


def _work(text: str) -> int:
    """Return how many commands do the script's work; where it is one, the script fails when that fails."""
    return sum(command.words[0] not in _SETTINGS for command in commands_of(text))
