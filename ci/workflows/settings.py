"""The settings of the generated workflows, and the pins of the actions they use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field, StringConstraints, TypeAdapter

from ci.data_files import read
from ci.scenarios.model import Accelerator, Declaration, Name

DIRECTORY = Path(__file__).parent
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Pin(Declaration):
    """The commit of an action."""

    version: str
    commit: Commit | None = None
    unpinned: str | None = None
    """Why the commit is not known: stands beside the action wherever it is used."""

    @pydantic.model_validator(mode="after")
    def _is_pinned_or_says_why(self) -> Self:
        if (self.commit is None) == (self.unpinned is None):
            raise ValueError("give the action's commit, or say in `unpinned` why it is not known")
        return self

    @property
    def reference(self) -> str:
        """Return what stands behind the ``@``."""
        return self.commit or self.version


class Checkout(Declaration):
    """Which repository is checked out; none named: the one the workflow lies in, at the commit that started it."""

    repository: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    ref: str | None = None


class Schedule(Declaration):
    """When a cadence starts, in UTC."""

    hour: int = Field(ge=0, le=23)
    days: str
    """Days of the week, as cron writes them."""


class ElasticMachine(Declaration):
    """A machine that a service starts from the image for one workflow run, and takes back after it."""

    kind: Literal["elastic"]
    devices: int = Field(gt=0)
    service: str
    installer: Literal["uv", "pip"]


class FixedRunner(Declaration):
    """A runner that is always there, and starts the image as the job's container."""

    kind: Literal["fixed"]
    devices: int = Field(gt=0)
    runner: str
    shared_memory: str
    links: dict[str, str] = Field(default_factory=dict)
    """Folders of the home folder that stand for folders of the machine."""
    installer: Literal["uv", "pip"]


Machine = Annotated[ElasticMachine | FixedRunner, Field(discriminator="kind")]


class Settings(Declaration):
    """What the workflows need to know beyond the catalogue."""

    repository_owner: str
    branches: tuple[str, ...] = Field(min_length=1)
    suite: Checkout
    verl: Checkout
    hosted_runner: str
    nox: str
    margin_minutes: int = Field(ge=1)
    retention_days: int = Field(ge=1, le=90)
    schedules: dict[Literal["nightly", "weekly"], Schedule]
    machines: dict[Accelerator, Machine]
    unpinned_images: dict[str, str]
    """What stands in for an image that the lock has no digest of."""
    shared_machines: dict[Name, tuple[Name, ...]]
    environment: dict[Accelerator | Literal["all"], dict[str, str]]

    @pydantic.model_validator(mode="after")
    def _lies_in_a_repository(self) -> Self:
        if self.suite.repository is not None and self.verl.repository is not None:
            raise ValueError("the workflows lie in the repository of the suite or of verl: name the other one alone")
        return self

    @property
    def in_verl(self) -> bool:
        """Tell whether the suite's files lie in verl's own repository, beside verl's."""
        return self.suite.repository is None and self.verl.repository is None


def load_settings(path: Path = DIRECTORY / "settings.yaml") -> Settings:
    """Return the settings.

    Raises:
        ConfigError: with a line for each problem.
    """
    return read(path, TypeAdapter(Settings))


def load_pins(path: Path = DIRECTORY / "pins.yaml") -> dict[str, Pin]:
    """Return the pin of each action.

    Raises:
        ConfigError: with a line for each problem.
    """
    return read(path, TypeAdapter(dict[str, Pin]))
