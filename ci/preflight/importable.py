"""verl's own checks, run by an interpreter that can import verl: validate_config and the trainer's constructor."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ci.cache import cache_directory, digest, write_whole
from ci.preflight.problem import Problem
from ci.preflight.vintage import VINTAGE
from ci.verl.source import Source

LIMIT_S = 120.0
_SCRIPT = Path(__file__).with_name("importable_checks.py")


def check_importable(
    python: Path, environment: Mapping[str, str], configuration: str, source: Source
) -> tuple[Problem, ...]:
    """Run verl's own checks of one configuration, see `check_all_importable`."""
    return check_all_importable(python, environment, {"": configuration}, source)[""]


def check_all_importable(
    python: Path, environment: Mapping[str, str], configurations: Mapping[str, str], source: Source
) -> dict[str, tuple[Problem, ...]]:
    """Run verl's own checks of configurations (YAML, by scenario) with an interpreter that has verl.

    An answer is kept as long as interpreter, verl, configuration and plug-ins stay the same: the checks take several
    seconds, most of which import torch, so all configurations share one process. An interpreter that fails for
    another reason is a problem of each, and not kept.
    """
    common = digest((VINTAGE, *_interpreter_stamp(python), source.fingerprint, *_environment_stamps(environment)))
    kept = {
        scenario: cache_directory("importable") / f"{digest((common, text))}.json"
        for scenario, text in configurations.items()
    }
    answers = {
        scenario: tuple(Problem.from_plain(plain) for plain in json.loads(path.read_text(encoding="utf-8")))
        for scenario, path in kept.items()
        if path.is_file()
    }
    asked = {scenario: text for scenario, text in configurations.items() if scenario not in answers}
    if not asked:
        return answers
    refused = _run(python, environment, asked)
    if isinstance(refused, Problem):
        return answers | dict.fromkeys(asked, (refused,))
    for scenario in asked:
        answers[scenario] = tuple(
            Problem(
                name=f"verl's own {check}",
                message=f"verl refuses it: {why}",
                hint="the interpreter that will train says so, and would have said it minutes later",
            )
            for check, why in refused[scenario]
        )
        write_whole(kept[scenario], json.dumps([problem.plain() for problem in answers[scenario]]))
    return answers


def _run(
    python: Path, environment: Mapping[str, str], configurations: Mapping[str, str]
) -> dict[str, list[tuple[str, str]]] | Problem:
    try:
        run = subprocess.run(
            (str(python), str(_SCRIPT)),
            input=json.dumps(configurations),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, **environment},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _unknown(python, str(error))
    answer = next((line for line in reversed(run.stdout.splitlines()) if line.startswith("{")), None)
    if answer is None:
        last = (run.stderr.strip().splitlines() or [f"it ended with code {run.returncode}"])[-1]
        return _unknown(python, last)
    return {scenario: [(check, why) for check, why in refused] for scenario, refused in json.loads(answer).items()}


def _unknown(python: Path, why: str) -> Problem:
    return Problem(
        name="verl's own checks",
        message=f"unknown: {python} could not run them: {why}",
        hint="does this interpreter import verl? try: python -c 'import verl.trainer.ppo.v1'",
    )


def _interpreter_stamp(python: Path) -> tuple[str, str]:
    """Stand for an interpreter with what is installed in it."""
    packages = sorted((python.parent.parent / "lib").glob("python*/site-packages"))
    return str(python), ",".join(str(path.stat().st_mtime_ns) for path in packages)


def _environment_stamps(environment: Mapping[str, str]) -> list[str]:
    """Stand for what the environment says to verl, plug-ins included; not what differs from run to run."""
    told = [
        f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(("VERL_USE", "PYTHONPATH"))
    ]
    return [
        *told,
        *(
            f"{file}:{file.stat().st_mtime_ns}"
            for folder in environment.get("PYTHONPATH", "").split(os.pathsep)
            if folder
            for module in environment.get("VERL_USE_EXTERNAL_MODULES", "").split(",")
            if module
            for file in sorted(Path(folder, module).glob("*.py"))
        ),
    ]
