"""A plan: one scenario with knobs, target and engine resolved. A value, printable and comparable."""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ci.scenarios.model import CheckDeclaration, Facts, Target

EngineName = Literal["docker", "host"]
Role = Literal["training", "rollout", "teachers", "reward"]


class Value(BaseModel):
    """Base of the plan's parts: frozen, and strict about unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RoleLayout(Value):
    """How many devices one role has."""

    role: Role
    devices: int


class Layout(Value):
    """How the devices are shared out: with ``colocated`` every role uses all of them."""

    devices: int
    colocated: bool
    roles: tuple[RoleLayout, ...]


class Mount(Value):
    """A folder of the host that the container sees at the same path."""

    path: str
    read_only: bool


class Doubt(Value):
    """What speaks against running an image."""

    what: str
    mend: str
    """The command or the step that removes the doubt."""


class Image(Value):
    """The container image a run starts in, as `containers/images.lock` has it."""

    name: str
    reference: str
    """What the engine is asked for: ``repository@sha256:…`` once pinned, a local tag before."""
    digest: str | None
    verified: bool
    content_hash: str | None
    """Hash of everything it was built from; None for an image that the suite did not build."""
    capabilities: tuple[str, ...]
    """What a scenario's ``needs`` can ask for."""
    doubts: tuple[Doubt, ...]
    """Under CI they refuse the run, elsewhere they are warned of."""


class Verl(Value):
    """Which verl the run uses: a release from the index, a checkout, what the image holds, or this machine's Python."""

    kind: Literal["release", "checkout", "image", "installed"]
    name: str
    """A version such as ``0.9.1``, an absolute path, an image's name, or the Python that imports it."""


class Step(Value):
    """A command to run before the trainer, unless every file it creates is there."""

    name: str
    argv: tuple[str, ...]
    creates: tuple[str, ...]


class Plan(Value):
    """Everything a run needs to know, and nothing that it finds out."""

    scenario: str
    summary: str
    target: Target
    engine: EngineName
    rehearsal: bool
    verl: Verl
    knobs: dict[str, str | int]
    layout: Layout
    launcher: tuple[str, ...]
    module: str
    overrides: tuple[str, ...]
    arguments: tuple[str, ...]
    """Hydra overrides the caller gave after ``--``; they come last, so they win."""
    environment: dict[str, str]
    """Variables set for every process of the run, on top of the caller's own environment."""
    working_directory: str | None
    """Where the trainer starts; None: in the run's own folder, since verl writes beside itself."""
    image: Image | None
    """What the docker engine starts, or what this machine was started from; None for a rehearsal on the host."""
    strict: bool
    """Under CI: an image that is in doubt is refused, and not only warned of."""
    mounts: tuple[Mount, ...]
    devices: int
    """Accelerators to lease; 0 in a rehearsal."""
    steps: tuple[Step, ...]
    models: dict[str, str]
    data_files: tuple[str, ...]
    needs: tuple[str, ...]
    facts: Facts
    checks: dict[str, CheckDeclaration]
    time_limit_s: float
    stall_limit_s: float
    keep: bool
    """Leave the container, and the Ray session directory, for a look after the run."""
    preflight_only: str | None
    """Why the scenario cannot be rehearsed: then its preflight is all that is done."""
    notes: tuple[str, ...] = ()
    """What the caller should know about how the plan came to be."""
    reproduce: str
    """The line that makes the same plan again, to be pasted."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the trainer's whole command line."""
        return (*self.launcher, "-m", self.module, *self.overrides, *self.arguments)

    @property
    def limits(self) -> str:
        """Return both limits, to be read."""
        return f"{_span(self.time_limit_s)} in all, {_span(self.stall_limit_s)} without a sign of life"

    @property
    def command_line(self) -> str:
        """Return the command line, quoted so that it can be pasted into a shell."""
        return shlex.join(self.argv)


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds % 60 else f"{seconds / 60:g} min"
