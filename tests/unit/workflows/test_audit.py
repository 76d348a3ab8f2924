from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from ci.errors import ConfigError
from ci.workflows.audit.audit import audit
from ci.workflows.audit.document import parse
from ci.workflows.audit.finding import RULES, Finding
from ci.workflows.audit.output import as_json, as_sarif, print_table, report
from ci.workflows.audit.shell import commands_of

COMMIT = "11bd71901bbe5b1630ceea73d27597364c9af683"
DIGEST = "sha256:" + "0" * 64
Files = Mapping[str, str]


def workflow(
    *steps: str, name: str = "build", on: str = "[push]", job: str = "work", more: str = "timeout-minutes: 5"
) -> str:
    shown = "\n".join(f"      - {step}" for step in steps) or "      - run: make"
    return f"name: {name}\non: {on}\njobs:\n  {job}:\n    runs-on: ubuntu-latest\n    {more}\n    steps:\n{shown}\n"


def file(content: str, name: str = "build") -> Files:
    return {f".github/workflows/{name}.yml": content}


FILTERED = '{pull_request: {paths: ["src/**"]}}'
SCRIPTED = '{pull_request: {paths: ["src/**", "run.sh"]}}'
SCRIPT = {"run.sh": "set -e\nmake\nmake install\n", "src/a.c": ""}
CLEANUP = """\
on: [push]
jobs:
  machine:
    runs-on: ubuntu-latest
    timeout-minutes: 5
    outputs: {id: "${{ steps.make.outputs.id }}"}
    steps: [{id: make, run: make machine}]
  one:
    needs: machine
    runs-on: "${{ needs.machine.outputs.id }}"
    timeout-minutes: 5
    steps: [{run: make}, {run: make one}]
  two:
    needs: machine
    runs-on: "${{ needs.machine.outputs.id }}"
    timeout-minutes: 5
    steps: [{run: make}, {run: make two}]
  cleanup:
    if: always()
    needs: %s
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps: [{run: "make gone"}, {run: echo, env: {ID: "${{ needs.machine.outputs.id }}"}}]
"""
TWO_JOBS = """\
on: [push]
jobs:
  first: {runs-on: ubuntu-latest, timeout-minutes: 5, steps: [{run: make}, {run: make install}]}
  second: {runs-on: ubuntu-latest, timeout-minutes: 5, needs: first, steps: [{run: make}, {run: make %s}]}
"""

ONE_COMMAND = "set -x\nexport Y=2\nif [ -z $Z ]; then W=$(date)\nfi\nA=(\na=1\n)\nX=1 \\\n  make all\n"
NOT_REFERENCES = "https://x.org/src/gone.py src/your_script.py src/*.py src/NAME.py other/gone.py src/<name>.py"
LONG = tuple(f"run: make part{i}" for i in range(10))

CASES: dict[str, tuple[tuple[Files, Files], ...]] = {
    "workflow-unreadable": (
        (file("on: [push\n"), file(workflow())),
        (file("- a list\n"), file(workflow())),
        (file(workflow(on='{push: {paths: ["src/[a"]}}')), file(workflow(on='{push: {paths: ["**"]}}'))),
    ),
    "path-filter-dead": (
        (file(workflow(on='{push: {paths: ["lib/**"]}}')), file(workflow(on="{push: {paths: ['.github/**']}}"))),
        (
            file(workflow(on='{push: {paths-ignore: ["docs/**"]}}')),
            {**file(workflow(on='{push: {paths-ignore: ["docs/**"]}}')), "docs/a.md": ""},
        ),
        (
            {**file(workflow(on='{push: {paths: ["**", "!old.py"]}}'))},
            {**file(workflow(on='{push: {paths: ["**", "!old.py"]}}')), "old.py": ""},
        ),
    ),
    "script-starts-nothing": (
        (
            {**file(workflow("run: bash run.sh", on=FILTERED)), **SCRIPT},
            {**file(workflow("run: bash run.sh", on=SCRIPTED)), **SCRIPT},
        ),
        (
            {**file(workflow("run: FOO=1 ./run.sh", on='{push: {paths-ignore: ["*.sh"]}}')), **SCRIPT},
            {**file(workflow("run: FOO=1 ./run.sh", on="[push]")), **SCRIPT},
        ),
        (
            {**file(workflow("run: cd src && python a.py", on='{push: {paths: ["*.c"]}}')), "src/a.py": "", "a.c": ""},
            {**file(workflow("run: cd src && python a.py", on='{push: {paths: ["src/*"]}}')), "src/a.py": ""},
        ),
        (
            {
                **file(workflow("run: pytest src/test_a.py::test_it", on='{push: {paths: ["*.c"]}}')),
                "src/test_a.py": "",
            },
            {
                **file(workflow("run: echo src/test_a.py", on='{push: {paths: ["*.c"]}}')),
                "a.c": "",
                "src/test_a.py": "",
            },
        ),
    ),
    "lock-starts-nothing": (
        (
            {**file(workflow("run: uv run pytest", on=FILTERED)), "uv.lock": "", "src/a": ""},
            {**file(workflow("run: uv run pytest", on='{push: {paths: ["*.lock"]}}')), "uv.lock": ""},
        ),
        (
            {**file(workflow("run: $RUN make", on=FILTERED, more="env: {RUN: uv run --frozen}")), "uv.lock": ""},
            {**file(workflow("run: $RUN make", on="[push]", more="env: {RUN: uv run --frozen}")), "uv.lock": ""},
        ),
    ),
    "name-promises-tests": (
        (file(workflow("run: ruff check", name="e2e_trainer")), file(workflow("run: pytest", name="e2e_trainer"))),
        (file(workflow("run: mypy", name="unit tests")), file(workflow("run: mypy", name="types"))),
    ),
    "job-in-one-line": (
        (file(workflow("run: nox -s tests")), file(workflow("run: make", "run: make install"))),
        (file(workflow("run: A=1 nox -s tests")), file(workflow("run: make && make install"))),
        (file(workflow("run: make", "run: exec nox -s tests")), file(workflow("run: exec a", "run: exec b"))),
    ),
    "job-nearly-repeated": (
        (
            {**file(workflow(*LONG, "run: last"), "a"), **file(workflow(*LONG, "run: other"), "b")},
            {**file(workflow(*LONG, "run: last"), "a"), **file(workflow(*LONG[:5], "run: a", "run: b", "run: c"), "b")},
        ),
    ),
    "job-repeated": ((file(TWO_JOBS % "install"), file(TWO_JOBS % "clean")),),
    "job-name-twice": (
        (
            {**file(workflow("run: make a"), "a"), **file(workflow("run: make b"), "b")},
            {**file(workflow("run: make a"), "a"), **file(workflow("run: make b", job="other"), "b")},
        ),
    ),
    "timeout-missing": (
        (file(workflow(more="env: {}")), file(workflow(more="timeout-minutes: ${{ inputs.limit }}"))),
        (
            file("on: [push]\njobs: {a: {runs-on: x, steps: [{run: make}]}}\n"),
            file("on: [push]\njobs: {a: {uses: ./.github/workflows/build.yml}}\n"),
        ),
    ),
    "cleanup-leaves-out": ((file(CLEANUP % "[machine, one]"), file(CLEANUP % "[machine, one, two]")),),
    "script-without-set-e": (
        (
            {**file(workflow("run: bash run.sh")), "run.sh": "make\nmake install\n"},
            {**file(workflow("run: bash run.sh")), "run.sh": "#!/bin/bash\nset -xeuo pipefail\nmake\nmake install\n"},
        ),
        (
            {**file(workflow("run: bash run.sh")), "run.sh": "set -e\nbash inner.sh\ntrue\n", "inner.sh": "a\nb\n"},
            {**file(workflow("run: bash run.sh")), "run.sh": "#!/bin/bash -e\na\nb\n"},
        ),
        (
            {**file(workflow("run: bash run.sh")), "run.sh": "set -x\n# set -e\na\nb\n"},
            {
                **file(workflow("run: bash run.sh")),
                "run.sh": ONE_COMMAND,
            },
        ),
    ),
    "image-without-digest": (
        (
            file(workflow(more='container: {image: "ghcr.io/a/b:1"}')),
            file(workflow(more=f'container: {{image: "ghcr.io/a/b:1@{DIGEST}"}}')),
        ),
        (file(workflow(more="container: python:3.12")), file(workflow(more="container: ${{ inputs.image }}"))),
        (
            file(workflow("uses: docker://alpine:3", more="timeout-minutes: 1")),
            file(workflow(f"uses: docker://alpine@{DIGEST}", more="timeout-minutes: 1")),
        ),
        (
            file(workflow(more='env: {BASE_IMAGE: "ghcr.io/a/b:latest"}')),
            file(workflow(more='env: {IMAGE: "photographs/of/a/cat.png", OTHER: "a/b:c"}')),
        ),
    ),
    "action-without-commit": (
        (file(workflow("uses: actions/checkout@v4")), file(workflow(f"uses: actions/checkout@{COMMIT} # v4.2.2"))),
        (file(workflow("uses: actions/checkout")), file(workflow("uses: ./.github"))),
        (
            file("on: [push]\njobs: {a: {uses: o/r/.github/workflows/x.yml@main}}\n"),
            file(f"on: [push]\njobs: {{a: {{uses: o/r/.github/workflows/x.yml@{COMMIT}}}}}\n"),
        ),
    ),
    "install-unpinned": (
        (file(workflow("run: pip install uv")), file(workflow("run: pip install uv==0.9.1"))),
        (
            file(workflow("run: python3 -m pip install 'a>=1' b==1")),
            file(workflow("run: pip install -r a.txt -e .")),
        ),
        (
            file(workflow("run: uv pip install git+https://github.com/a/b.git@main")),
            file(workflow("run: uv pip install git+https://github.com/a/b.git@v1.2")),
        ),
        (file(workflow("run: sudo pip3 install --no-deps a")), file(workflow("run: pip list && echo pip install a"))),
    ),
    "reference-missing": (
        (file(workflow("uses: ./.github/actions/gone")), file(workflow("uses: ./.github/workflows"))),
        (
            {**file(workflow("run: bash src/gone.sh")), "src/a": ""},
            {**file(workflow("run: bash src/a.sh && cat ~/src/gone.sh out/x.txt")), "src/a.sh": ""},
        ),
        (
            {**file(workflow()), "docs/a.md": "run `src/gone.py`", "src/a": ""},
            {**file(workflow()), "docs/a.md": NOT_REFERENCES, "src/a": ""},
        ),
        (
            {**file(workflow()), "CODEOWNERS": "# owners\n/src/gone/ @team\n", "src/a": ""},
            {**file(workflow()), "CODEOWNERS": "* @all\n/src @team\n*.c @c\ndeep/ @d\n", "src/deep/a.c": ""},
        ),
        (
            {**file(workflow()), ".github/workflows/README.md": "see gone.yml"},
            {**file(workflow()), ".github/workflows/README.md": "see build.yml"},
        ),
    ),
}


def _cases(which: int) -> Iterator[tuple[str, Files]]:
    for rule, pairs in CASES.items():
        for pair in pairs:
            yield rule, pair[which]


def _audited(folder: Path, files: Files) -> tuple[Finding, ...]:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return audit(folder)


def test_every_rule_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize(("rule", "files"), tuple(_cases(0)))
def test_finds(tmp_path: Path, rule: str, files: Files) -> None:
    assert rule in {finding.rule for finding in _audited(tmp_path, files)}


@pytest.mark.parametrize(("rule", "files"), tuple(_cases(1)))
def test_leaves_alone(tmp_path: Path, rule: str, files: Files) -> None:
    assert [finding for finding in _audited(tmp_path, files) if finding.rule == rule] == []


def test_each_finding_has_its_line(tmp_path: Path) -> None:
    content = """\
name: build
on:
  push:
    paths:
      - "gone/**"
jobs:
  work:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: |
          make
          pip install \\
            uv
"""
    found = {finding.rule: finding.line for finding in _audited(tmp_path, file(content))}
    assert found == {"path-filter-dead": 5, "timeout-missing": 7, "action-without-commit": 10, "install-unpinned": 13}


def test_a_cleanup_names_the_job_it_leaves_out(tmp_path: Path) -> None:
    found = _audited(tmp_path, file(CLEANUP % "[machine, one]"))
    messages = [finding.message for finding in found if finding.rule == "cleanup-leaves-out"]
    assert messages == ["cleanup takes away what machine made, not awaiting two"]


def test_a_folder_without_workflows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no \.github/workflows"):
        audit(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "on: push\n",
        "on: push\njobs: [a, b]\n",
        "on: push\njobs: {a: null, b: text, c: {steps: text}, d: {steps: [null, text, {run: null}, {uses: [a]}]}}\n",
        "on: {push: {paths: text}, pull_request: null, workflow_call: [a]}\njobs: {a: {needs: {b: c}, env: x}}\n",
        "on: {push: {paths: [[a], {b: c}, '']}}\njobs: {a: {container: {image: null}, steps: []}}\n",
        "on: push\njobs: {a: {steps: [{run: \"it's never closed\"}, {run: '((; && |'}, {run: 'cat <<EOF'}]}}\n",
        "a: &a [*a]\n",
        "on: push\n? [a, b]\n: c\n",
        "\u0000",
    ],
)
def test_odd_workflows_are_findings_and_no_failure(tmp_path: Path, content: str) -> None:
    assert all(finding.rule in RULES for finding in _audited(tmp_path, file(content)))


def test_reads_on_as_a_word() -> None:
    assert list(parse(b"on: push\n")) == ["on"]


def test_splits_shell_into_commands() -> None:
    script = 'a "b c" && X=1 d | e\ncat <<EOF\nnot; commands\nEOF\nif f; then g; fi # h\ni \\\n  j\necho "k\nl; m"'
    script += '\nA=(n\n"o p")\nQ=$((1 + 2)) q $(r s)'
    assert [(command.words, command.line) for command in commands_of(script)] == [
        (("a", "b c"), 1),
        (("d",), 1),
        (("e",), 1),
        (("cat", "<<EOF"), 2),
        (("f",), 5),
        (("g",), 5),
        (("fi",), 5),
        (("i", "j"), 6),
        (("echo", "k\nl; m"), 8),
        (("q", "OUTPUT"), 12),
    ]


def test_the_outputs_say_the_same(tmp_path: Path) -> None:
    found = _audited(tmp_path, file(workflow("uses: actions/checkout@v4", more="env: {}")))
    assert found
    listed = json.loads(as_json(found))
    assert [(entry["rule"], entry["line"]) for entry in listed] == [(finding.rule, finding.line) for finding in found]
    run = json.loads(as_sarif(found))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result, finding in zip(run["results"], found, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule
        place = result["locations"][0]["physicalLocation"]
        assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (finding.file, finding.line)
    console = Console(width=200, file=io.StringIO(), record=True)
    print_table(found, console)
    shown = console.export_text()
    assert all(f"{finding.file}:{finding.line}: {finding.message}" in shown for finding in found)


def test_reports_into_a_file_and_fails_where_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _audited(tmp_path, file(workflow("uses: actions/checkout@v4")))
    report(tmp_path, form="sarif", output=str(tmp_path / "out.sarif"))
    assert (tmp_path / "out.sarif").read_text() == as_sarif(found)
    report(tmp_path, fail_on="error")
    assert found[0].message in capsys.readouterr().out
    with pytest.raises(ConfigError, match="of level warning or graver"):
        report(tmp_path, fail_on="warning")
    for wrong in ({"form": "xml"}, {"fail_on": "grave"}):
        with pytest.raises(ConfigError, match="--form is one of"):
            report(tmp_path, **wrong)


def test_fifty_workflows_take_less_than_five_seconds(tmp_path: Path) -> None:
    steps = tuple(f"run: pip install package{i} && bash src/run_{i}.sh" for i in range(60))
    filters = "{push: {paths: [" + ", ".join(f'"src/{i}/**"' for i in range(15)) + "]}}"
    files = {f".github/workflows/w{i}.yml": workflow(*steps, on=filters, job=f"job{i}") for i in range(50)}
    files |= {f"src/run_{i}.sh": "make\nmake install\n" for i in range(60)}
    files |= {f"docs/{i}.md": "see `src/gone.sh` and more\n" * 100 for i in range(200)}
    started = time.process_time()
    assert _audited(tmp_path, files)
    assert time.process_time() - started < 5.0
