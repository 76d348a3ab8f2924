"""The workflows, generated from the catalogue, the settings and the lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci.errors import ConfigError, collected
from ci.images.lock import locked_images
from ci.plan import Image
from ci.scenarios.catalogue import Catalogue, load
from ci.workflows.events import events
from ci.workflows.group import Group, groups
from ci.workflows.machine import elastic_workflow, jobs_of
from ci.workflows.own import own_workflow
from ci.workflows.settings import ElasticMachine, Pin, Settings, load_pins, load_settings
from ci.workflows.text import HEADER, actionlint_text, workflow_text
from ci.workflows.triggers import ELASTIC, WORKFLOWS

ROOT = Path(__file__).parents[2]
MEND = "inv workflows.generate"
ACTIONLINT = ".github/actionlint.yaml"


def generated(
    catalogue: Catalogue, settings: Settings, pins: dict[str, Pin], images: Mapping[str, Image]
) -> dict[str, str]:
    """Return the text of every workflow by its path in the repository.

    Raises:
        ConfigError: when settings, catalogue and lock do not fit together.
    """
    images = {scenario.image: _image(scenario.image, settings, images) for scenario in catalogue.values()}
    workflows: dict[str, dict[str, Any]] = {}
    for index, group in enumerate(groups(catalogue, settings)):
        workflows[f"{WORKFLOWS}/{group.name}.yml"] = _workflow(group, settings, pins, images, minute=7 + 6 * index % 53)
    if any(isinstance(machine, ElasticMachine) for machine in settings.machines.values()):
        workflows[ELASTIC] = elastic_workflow(settings, pins)
    if settings.suite.repository is None:
        workflows[f"{WORKFLOWS}/suite.yml"] = own_workflow(settings, pins)
    remarks = {image.reference: _remark(image) for image in images.values() if not image.verified}
    # https://docs.github.com/actions/how-tos/reuse-automations/reuse-workflows#calling-a-reusable-workflow
    remarks |= {f"./{ELASTIC}": "zizmor: ignore[self-repository] of a job, `./` is this repository at this commit"}
    texts = {path: workflow_text(workflow, pins, remarks) for path, workflow in sorted(workflows.items())}
    return texts | {ACTIONLINT: actionlint_text(settings)}


def _image(name: str, settings: Settings, images: Mapping[str, Image]) -> Image:
    locked = images.get(name)
    if locked is not None and locked.digest is not None:
        return locked
    if name not in settings.unpinned_images:
        raise ConfigError(
            f"the image `{name}` is not pinned, and nothing in unpinned_images of settings.yaml stands in for it",
            hint=f"`inv images.pin {name}` pins it",
        )
    return Image(
        name=name,
        reference=settings.unpinned_images[name],
        digest=None,
        verified=False,
        content_hash=None,
        capabilities=(),
        doubts=(),
    )


def _remark(image: Image) -> str:
    if image.digest is not None:
        return "not verified yet"
    return f"zizmor: ignore[unpinned-images] until `inv images.pin {image.name}` has pinned it; not verified"


def _workflow(
    group: Group, settings: Settings, pins: dict[str, Pin], images: Mapping[str, Image], *, minute: int
) -> dict[str, Any]:
    return {
        "name": group.name,
        "on": events(group, settings, minute=minute),
        # a pull request's newer push cancels the older one; runs of a branch have groups of their own, since a group
        # also drops whatever waits in it when one more arrives
        "concurrency": {
            "group": "${{ github.workflow }}-${{ github.event.pull_request.number || github.run_id }}",
            "cancel-in-progress": "${{ github.event_name == 'pull_request' }}",
        },
        "permissions": {},
        "defaults": {"run": {"shell": "bash"}},  # a container's own default is sh, and no pipefail
        "jobs": jobs_of(group, settings, pins, images[group.first.image]),
    }


def current() -> dict[str, str]:
    """Return what the workflows of this repository have to be."""
    return generated(load(), load_settings(), load_pins(), locked_images(ROOT))


def write(root: Path = ROOT) -> tuple[str, ...]:
    """Write the workflows, take away generated ones that are no more, and return the paths that changed."""
    wanted = current()
    changed = tuple(difference.partition(":")[0] for difference in differences(wanted, root))
    for path in stale(wanted, root):
        (root / path).unlink()
    for path, text in wanted.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return changed


def check(root: Path = ROOT) -> None:
    """Compare the workflows on disk with what they have to be.

    Raises:
        ConfigError: naming each that differs, and the command that mends it.
    """
    problems = list(differences(current(), root))
    if problems:
        error = collected(problems, what="the workflows do not follow from the catalogue")
        raise ConfigError(error.message, hint=f"`{MEND}` writes them")


def differences(wanted: Mapping[str, str], root: Path) -> Iterator[str]:
    """Yield each workflow that is missing, differs, or is no more."""
    for path, text in wanted.items():
        if not (root / path).is_file():
            yield f"{path}: is missing"
        elif (found := (root / path).read_text(encoding="utf-8")) != text:
            yield f"{path}: differs, first in line {_first_difference(found, text)}"
    yield from (f"{path}: was generated for something that is no more" for path in stale(wanted, root))


def stale(wanted: Mapping[str, str], root: Path) -> tuple[str, ...]:
    """Return the generated workflows on disk that nothing asks for."""
    found = sorted((root / WORKFLOWS).glob("*.yml"))
    generated_ones = (path for path in found if path.read_text(encoding="utf-8").startswith(HEADER))
    return tuple(name for path in generated_ones if (name := path.relative_to(root).as_posix()) not in wanted)


def _first_difference(found: str, wanted: str) -> int:
    pairs = zip(found.splitlines(), wanted.splitlines(), strict=False)
    return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), len(found.splitlines()) + 1)
