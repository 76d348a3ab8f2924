"""What starts a scenario: its own path filters of verl, and what of the suite decides its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ci.scenarios.catalogue import Catalogue
from ci.scenarios.documents import DIRECTORY, Reader
from ci.scenarios.model import Scenario
from ci.workflows.files import Files
from ci.workflows.paths import PathFilter

SUITE = ("ci/**", "noxfile.py", "containers/images.lock")
"""What decides every run: the suite, and what the images are pinned to. What is new in ci/ counts at first."""
NOT_OF_A_RUN = (
    "!ci/coverage/**",
    "!ci/workflows/**",
    "!ci/**/tasks.py",
    "!ci/scenarios/budget/**",
    "!ci/scenarios/scenario.schema.json",
    "!ci/scenarios/*.yaml",
    "!ci/scenarios/bases/*.yaml",
)
"""What of it no run is made of; the scenario's own files come back after it."""
WORKFLOWS = ".github/workflows"
ELASTIC = f"{WORKFLOWS}/e2e_on_elastic_machine.yml"


def patterns_of(name: str, scenario: Scenario) -> tuple[str, ...]:
    """Return the patterns of one scenario: verl's first, so that none of them takes back one of the suite's."""
    return (*scenario.triggers, *SUITE, *NOT_OF_A_RUN, *_declared_in(name), f"containers/{scenario.image}/**")


def _declared_in(name: str) -> Iterator[str]:
    merged = Reader(directory=DIRECTORY).merged(name)
    for path, _ in merged.sources if merged else ():
        yield f"ci/scenarios/{path.relative_to(DIRECTORY).as_posix()}"


def dead_triggers(catalogue: Catalogue, files: Sequence[str]) -> Iterator[str]:
    """Yield each trigger that matches none of verl's files: the scenario waits for something that cannot change."""
    looked_at = Files(files)
    for name, scenario in catalogue.items():
        for wanted in PathFilter.of(scenario.triggers).patterns:
            if not looked_at.matching(wanted):
                yield f"e2e_{name}: triggers: `{wanted.text}` matches no file of this verl"
