"""`nox -l` and `inv -l` are the manual: a line for each session and each task."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import yaml

from ci.scenarios.documents import scenario_names

ROOT = Path(__file__).parents[2]


def listing(module: str) -> list[str]:
    done = subprocess.run(
        (sys.executable, "-m", module, "-l"),
        cwd=ROOT,
        env={"COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_task_has_a_line_of_its_own() -> None:
    lines = [line for line in listing("invoke")[1:] if line.strip()]
    assert lines
    assert [line for line in lines if line.startswith("   ")] == [], "a description is too long for its line"
    assert [line for line in lines if len(line.split()) < 2] == [], "a task has no description"


def test_every_scenario_and_session_has_a_line_of_its_own() -> None:
    done = subprocess.run((sys.executable, "-m", "nox", "-l"), cwd=ROOT, capture_output=True, text=True, check=True)
    sessions = dict(line[2:].split(" -> ") for line in done.stdout.splitlines() if line[:2] in {"* ", "- "})
    named = {name.split()[0] for name in sessions}
    assert {f"e2e_{name}" for name in scenario_names()} <= named
    assert {"preflight", "affected", "overhead", "tests", "lint", "typecheck"} <= named
    assert all(sessions.values())


def test_nox_installs_what_pyproject_lists() -> None:
    script = [line.removeprefix("# ") for line in (ROOT / "noxfile.py").read_text().split("# ///\n")[0].splitlines()]
    listed = yaml.safe_load("\n".join(script[script.index("dependencies = [") :]).replace("dependencies = ", ""))
    pyproject = (ROOT / "pyproject.toml").read_text().split("dependencies = [")[1].split("\n]")[0]
    assert listed == [line.split('"')[1] for line in pyproject.splitlines() if line.strip()]


def test_no_wide_end_of_other_peoples_processes() -> None:
    forbidden = ("pkill", "killall", "ray stop --force")
    files = [path for folder in ("ci", "containers", ".ci", ".github") for path in (ROOT / folder).rglob("*")]
    texts = {path: path.read_text() for path in files if path.suffix in {".py", ".sh", ".yml", ""} and path.is_file()}
    guilty = [str(path.relative_to(ROOT)) for path, text in texts.items() if any(word in text for word in forbidden)]
    assert guilty == []


def test_an_unknown_scenario_is_answered_with_the_nearest() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "nox", "-s", "e2e_fspd2"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no scenario is called `e2e_fspd2`; did you mean `e2e_fsdp2`" in done.stderr


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    program = "from ci.sessions import run_scenario; run_scenario('fsdp2', ['--target', 'cpu', '--dry-run'])"
    process = subprocess.Popen(
        (sys.executable, "-c", program), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == ""
    assert process.wait(60) == 128 + signal.SIGPIPE
