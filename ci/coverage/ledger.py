"""The ledger's data: capabilities of verl, the retired jobs, and the waivers for what they covered."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pydantic
import yaml
from pydantic import Field, StringConstraints

from ci.data_files import fault
from ci.errors import collected
from ci.scenarios.documents import StrictLoader, nearest
from ci.scenarios.model import Accelerator, Capability, Declaration, KnobName, Name

DIRECTORY = Path(__file__).parent
_HARDWARE: dict[str, Accelerator] = {"hw/cuda": "cuda", "hw/npu": "npu"}

Text = Annotated[str, StringConstraints(min_length=10, pattern=r"\S")]
Owner = Annotated[str, StringConstraints(min_length=3)]
Glob = str | tuple[str, ...]


class CapabilityEntry(Declaration):
    """Something verl can do, that a scenario can cover."""

    summary: Annotated[str, StringConstraints(min_length=3)]
    evidence: dict[str, Glob] = Field(default_factory=dict)
    """What the configuration of a scenario that claims it says: override to shell pattern, or to several of them."""
    accelerator: Accelerator | None = None


class ByHand(Declaration):
    """A run that no workflow starts, and that covers what is waived."""

    scenario: Name
    knobs: dict[KnobName, str] = Field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def line(self, accelerator: Accelerator) -> str:
        """Return the line to paste."""
        words = [f"{knob}={shlex.quote(value)}" for knob, value in self.knobs.items()]
        words += ["nox", "-s", f"e2e_{self.scenario}", "--", "--target", accelerator]
        return " ".join((*words, *(shlex.quote(argument) for argument in self.arguments)))


class Waiver(Declaration):
    """Why a capability is covered by nothing for a while, and who looks at it again by when."""

    capabilities: tuple[Capability, ...] = Field(min_length=1)
    accelerator: Accelerator | None = None
    """The kind of device it is missing on; None: on every kind."""
    reason: Text
    owner: Owner
    until: date
    link: str | None = None
    by_hand: tuple[ByHand, ...] = ()
    """The lines that cover it meanwhile, where somebody has the devices."""

    def covers(self, capability: str, accelerator: Accelerator) -> bool:
        """Tell whether this waiver speaks of the capability on this kind of device."""
        return capability in self.capabilities and self.accelerator in {None, accelerator}


class Successor(Declaration):
    """The capability that took the place of another one."""

    by: Capability
    because: Text


class RetiredJob(Declaration):
    """A job, or script, that was deleted, and what it had covered."""

    covers: tuple[Capability, ...] = Field(min_length=1)
    devices: str | None = None
    replaced_by: tuple[Name, ...] = ()
    """Scenarios that stand in its place."""
    note: str | None = None

    @property
    def accelerator(self) -> Accelerator:
        """Return the kind of device it ran on."""
        return next(_HARDWARE[capability] for capability in self.covers if capability in _HARDWARE)

    @pydantic.model_validator(mode="after")
    def _runs_on_one_kind_of_device(self) -> RetiredJob:
        if len([capability for capability in self.covers if capability in _HARDWARE]) != 1:
            raise ValueError(f"covers has to name exactly one of {', '.join(_HARDWARE)}")
        return self


class Gap(Declaration):
    """Something that no job ever covered, as capabilities that one scenario has to have together."""

    all_of: tuple[Capability, ...] = ()
    any_of: tuple[Capability, ...] = Field(min_length=1)


class Retired(Declaration):
    """What was covered before, and what never was."""

    successors: dict[Capability, Successor]
    jobs: dict[str, RetiredJob]
    never_covered: dict[str, Gap]


class Ledger(Declaration):
    """Everything the ledger states; what is covered today follows from the catalogue."""

    capabilities: dict[Capability, CapabilityEntry]
    retired: Retired
    waivers: dict[Name, Waiver]

    @pydantic.model_validator(mode="after")
    def _names_known_capabilities(self) -> Ledger:
        named: dict[str, Iterable[str]] = {
            **{f"retired.yaml: jobs.{name}": job.covers for name, job in self.retired.jobs.items()},
            **{f"retired.yaml: successors.{old}": (old, new.by) for old, new in self.retired.successors.items()},
            **{
                f"retired.yaml: never_covered.{name}": (*gap.all_of, *gap.any_of)
                for name, gap in self.retired.never_covered.items()
            },
            **{f"waivers.yaml: {name}": waiver.capabilities for name, waiver in self.waivers.items()},
        }
        unknown = [
            f"{place}: no capability is called `{capability}`{nearest(capability, tuple(self.capabilities))}"
            for place, capabilities in named.items()
            for capability in capabilities
            if capability not in self.capabilities
        ]
        if unknown:
            raise ValueError("; ".join(unknown))
        return self


def load(directory: Path = DIRECTORY) -> Ledger:
    """Return the ledger.

    Raises:
        ConfigError: with one line for each problem of any of its files.
    """
    data = {name: _read(directory / f"{name}.yaml") for name in ("capabilities", "retired", "waivers")}
    try:
        return Ledger.model_validate(data)
    except pydantic.ValidationError as error:
        schema = Ledger.model_json_schema()
        problems = [_problem(detail, schema) for detail in error.errors()]
        raise collected(problems, what=f"the ledger in {directory.name}/ is not valid") from error


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_bytes(), StrictLoader) or {}  # noqa: S506  # StrictLoader is a safe loader
    except (yaml.YAMLError, OSError) as error:
        raise collected([str(error)], what=f"{path.name} cannot be read") from error


def _problem(detail: Any, schema: dict[str, Any]) -> str:
    file = f"{detail['loc'][0]}." if detail["loc"] else ""
    return fault(detail, schema).replace(file, f"{file}yaml: ", 1) if file else fault(detail, schema)
