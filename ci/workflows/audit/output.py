"""The findings as a table, as JSON and as SARIF."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.errors import ConfigError
from ci.workflows.audit.audit import audit
from ci.workflows.audit.finding import RULES, Finding, Level

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def report(root: Path, *, form: str = "table", output: str = "", fail_on: str = "") -> None:
    """Audit a repository and say what was found, on the terminal or in a file.

    Raises:
        ConfigError: for a form or a level that does not exist, a folder without workflows, or, where a level to fail on
            is given, a finding as grave as that.
    """
    if form not in _FORMS or fail_on not in {"", *_GRAVITY}:
        raise ConfigError(f"--form is one of {', '.join(_FORMS)}, --fail-on one of {', '.join(_GRAVITY)}")
    findings = audit(root)
    text = _FORMS[form](findings)
    if output:
        Path(output).write_text(text, encoding="utf-8")
        print(f"{len(findings)} findings in {output}")
    else:
        print(text)
    if fail_on and any(_GRAVITY.index(finding.level) >= _GRAVITY.index(fail_on) for finding in findings):
        raise ConfigError(f"the workflows of {root} have findings of level {fail_on} or graver")


def as_table(findings: Sequence[Finding]) -> str:
    """Return the findings as text, in colours where it goes to a terminal."""
    console = Console(soft_wrap=True)
    with console.capture() as captured:
        print_table(findings, console)
    return captured.get()


def print_table(findings: Sequence[Finding], console: Console) -> None:
    """Print the findings by rule, each with its place, and a count of each rule."""
    for name, rule in RULES.items():
        own = [finding for finding in findings if finding.rule == name]
        if own:
            console.print(Text(f"\n{name}  {rule.level}, {len(own)}", style=f"bold {_COLOURS[rule.level]}"))
            console.print(Text(f"  {rule.summary}. {rule.remedy[0].upper()}{rule.remedy[1:]}."))
            for finding in own:
                console.print(Text(f"  {finding.file}:{finding.line}: {finding.message}"), soft_wrap=True)
    counts = Counter(finding.rule for finding in findings)
    table = Table("rule", "level", "findings", title=f"\n{len(findings)} findings")
    for name, rule in RULES.items():
        table.add_row(name, rule.level, str(counts[name]))
    console.print(table)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as a JSON list of objects."""
    return json.dumps([asdict(finding) | {"level": finding.level} for finding in findings], indent=2)


def as_sarif(findings: Sequence[Finding]) -> str:
    """Return the findings as SARIF 2.1.0, which GitHub shows beside the code."""
    names = list(RULES)
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.summary},
            "help": {"text": rule.remedy},
            "defaultConfiguration": {"level": rule.level},
        }
        for name, rule in RULES.items()
    ]
    results = [
        {
            "ruleId": finding.rule,
            "ruleIndex": names.index(finding.rule),
            "level": finding.level,
            "message": {"text": finding.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": finding.file, "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": finding.line},
                    }
                }
            ],
        }
        for finding in findings
    ]
    driver = {"name": "verl-e2e workflows.audit", "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


_GRAVITY: tuple[Level, ...] = ("note", "warning", "error")
_FORMS: dict[str, Callable[[Sequence[Finding]], str]] = {"table": as_table, "json": as_json, "sarif": as_sarif}
