# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "docker>=7.2",
#     "hydra-core>=1.3.2",
#     "invoke>=2.2",
#     "nox>=2025.5",
#     "nvidia-ml-py>=12",
#     "omegaconf>=2.3",
#     "packaging>=24",
#     "psutil>=6",
#     "py-spy>=0.4",
#     "pydantic>=2.9",
#     "pyyaml>=6.0.2",
#     "rich>=13.9",
# ]
# ///
"""Run verl's end-to-end scenarios, one session each: `nox -s e2e_fsdp2`. After `--` come options and Hydra overrides.

The list above is pyproject.toml's, where each line says why; nox installs it before it reads on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from ci.scenarios.documents import nearest, summaries  # noqa: E402  # the path comes first; nothing heavier is imported to list

# nox asks pip at every start whether the list above is installed, and pip answers with a line a package.
# Its own environment's pip.conf makes it speak of errors alone: https://pip.pypa.io/en/stable/topics/configuration/
if Path(sys.prefix).name == "_nox_script_mode" and not (quiet := Path(sys.prefix, "pip.conf")).exists():
    quiet.write_text("[install]\nquiet = 2\n")

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "typecheck", "tests"]

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
DEPENDENCIES: list[str] = PYPROJECT["project"]["dependencies"]


def scenario_session(name: str, summary: str) -> None:
    """Make the session of one scenario."""

    def run(session: nox.Session) -> None:
        from ci.sessions import run_scenario

        run_scenario(name, session.posargs)

    run.__doc__ = summary
    nox.session(name=f"e2e_{name}", venv_backend="none", default=False, tags=["e2e"])(run)


SCENARIOS = dict(summaries())
for _name, _summary in SCENARIOS.items():
    scenario_session(_name, _summary)

# nox would only say that there is no such session
for _word in sys.argv[1:]:
    if _word.startswith("e2e_") and _word.removeprefix("e2e_") not in SCENARIOS:
        print(
            f"no scenario is called `{_word}`{nearest(_word, tuple(f'e2e_{name}' for name in SCENARIOS))}",
            file=sys.stderr,
        )
        sys.exit(2)


@nox.session(venv_backend="none", default=False)
def preflight(session: nox.Session) -> None:
    """Check scenarios against verl's own configuration and this machine: all, or those named after --."""
    from ci.sessions import run_preflight

    run_preflight(session.posargs)


@nox.session(venv_backend="none", default=False)
def affected(session: nox.Session) -> None:
    """Name the scenarios that a change of verl touches: -- --base REF, or a list of files on stdin; --run runs them."""
    from ci.sessions import run_affected

    run_affected(session.posargs)


@nox.session(venv_backend="none", default=False)
def overhead(session: nox.Session) -> None:
    """Compare a warm rehearsal with the same trainer command started by hand, in alternation: what the suite costs."""
    from ci.sessions import run_overhead

    run_overhead(session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests: unit, engine (needs a Docker engine) and one rehearsal; name files or -k after --."""
    session.install(*DEPENDENCIES, *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*DEPENDENCIES, *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check the types, strictly, noxfile.py and tasks.py included."""
    session.install(*DEPENDENCIES, *nox.project.dependency_groups(PYPROJECT, "test", "typecheck"))
    session.run("mypy")
