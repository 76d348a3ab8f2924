"""A scenario as its file declares it, before knobs are resolved.

Values that are computed (a default, an override, a limit) are OmegaConf expressions such as
``${divide:${NUM_GPUS},2}``; `ci.scenarios.resolution` resolves them against the knobs.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

Accelerator = Literal["cuda", "npu"]
Target = Literal["cuda", "npu", "cpu"]
Expression = int | float | bool | str
IntegerExpression = int | str
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
KnobName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
Capability = Annotated[str, StringConstraints(pattern=r"^[a-z_]+/[a-z0-9_]+$")]


class Declaration(BaseModel):
    """Base of everything a scenario file declares: frozen, and strict about unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class Knob(Declaration):
    """An environment variable the scenario accepts, under the name verl's own script gives it."""

    type: Literal["integer", "number", "boolean", "text", "path", "choice"]
    default: Expression
    """Value when the variable is unset or empty, as in the shell's ``${NAME:-default}``."""
    help: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    """Exclusive lower bound."""
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    """Regular expression that a text has to match as a whole."""
    elsewhere: dict[str, str] = {}
    """Values that verl's script takes but that another scenario of this catalogue stands for: value to scenario."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("`choices` belongs to type choice, and type choice needs it")
        if self.type not in {"integer", "number"} and (self.minimum, self.maximum, self.above) != (None, None, None):
            raise ValueError(f"a {self.type} has no minimum, maximum or above")
        return self


class RoleDeclaration(Declaration):
    """How many devices one role gets, and what that number must fit."""

    devices: IntegerExpression
    multiple_of: IntegerExpression = 1
    exactly: IntegerExpression | None = None
    because: str = ""
    """Why the number must fit: shown when it does not."""


class LayoutDeclaration(Declaration):
    """How the devices of one node are shared out among the roles."""

    devices: IntegerExpression
    colocated: bool = False
    """True: every role uses all the devices. False: each device belongs to one role."""
    roles: dict[Literal["training", "rollout", "teachers", "reward"], RoleDeclaration]


class Rule(Declaration):
    """A condition on knobs that verl states nowhere, or only after minutes on a device."""

    value: IntegerExpression
    multiple_of: IntegerExpression | None = None
    at_most: IntegerExpression | None = None
    because: str


class DataStep(Declaration):
    """A command that makes the data the trainer reads; skipped when all it creates is there."""

    command: tuple[str, ...]
    creates: tuple[str, ...] = Field(min_length=1)


class Launcher(Declaration):
    """What starts Python in front of ``-m verl.trainer.main_ppo``."""

    uv_extras: tuple[str, ...]
    """Extras of verl's uv.lock; used on a GPU unless VERL_USE_UV=0, where the image's own Python starts instead."""
    uv_engines: tuple[str, ...] = ("vllm", "sglang")
    """Rollout engines that verl's uv.lock has an extra for."""


class StepsCheck(Declaration):
    """The trainer reported every step up to the last one asked for."""

    kind: Literal["steps"]
    at_least: IntegerExpression


class WeightSyncsCheck(Declaration):
    """Weights were synchronised, and every side that can be observed held the same ones."""

    kind: Literal["weight_syncs"]
    at_least: IntegerExpression
    sides: Literal["both", "trainer"] = "both"
    """``trainer`` where the receiving side is out of sight (weights handed over inside one vLLM process)."""


class FiniteCheck(Declaration):
    """No metric that matches is NaN or infinite, and at least one matches."""

    kind: Literal["finite"]
    metrics: tuple[str, ...] = ("*",)


class MetricCheck(Declaration):
    """One metric holds its bounds in every step; a step that lacks it fails."""

    kind: Literal["metric"]
    metric: str
    at_least: Expression | None = None
    at_most: Expression | None = None
    above: Expression | None = None
    because: str

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if (self.at_least, self.at_most, self.above) == (None, None, None):
            raise ValueError("a metric check needs at_least, at_most or above: without a bound it cannot fail")
        return self


CheckDeclaration = Annotated[StepsCheck | WeightSyncsCheck | FiniteCheck | MetricCheck, Field(discriminator="kind")]


class Facts(Declaration):
    """What must be true of the configuration as verl will really use it, after its dataclasses rewrote it."""

    trainer_mode: str | None = None
    strategy: str | None = None
    rollout_engine: str | None = None
    checkpoint_engine: str | None = None
    reward_engine: str | None = None
    tensor_parallel: IntegerExpression | None = None
    pipeline_parallel: IntegerExpression | None = None
    data_parallel: IntegerExpression | None = None
    fsdp_size: IntegerExpression | None = None
    reward_pool: Literal["none", "own", "colocated"] | None = None


class Limits(Declaration):
    """When a run is ended: no scenario is without."""

    time_minutes: float = Field(gt=0, le=24 * 60)
    stall_minutes: float = Field(gt=0, le=120)
    """Ended, with the stacks of its processes, when neither log nor events move for this long."""


class Quarantine(Declaration):
    """Why a scenario runs and reports, but blocks nothing, for a time."""

    reason: Annotated[str, StringConstraints(min_length=10)]
    link: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
    """The issue that says when it can block again."""
    owner: Annotated[str, StringConstraints(min_length=3)]
    until: str
    """Last day, as 2027-01-31: the catalogue is not valid after it. Text, since OmegaConf knows no dates."""

    @field_validator("until", mode="before")
    @classmethod
    def _has_not_passed(cls, value: Any) -> str:
        text = value.isoformat() if isinstance(value, date) else str(value)
        if date.fromisoformat(text) < datetime.now(UTC).date():
            raise ValueError(f"the quarantine ended on {text}: mend the scenario, or give a new reason and date")
        return text


class Rehearsal(Declaration):
    """What differs when the scenario is rehearsed on the CPU."""

    unsupported: str | None = None
    """Why it cannot be rehearsed yet: then its preflight runs instead."""
    knobs: dict[KnobName, Expression] = {}
    overrides: dict[str, Expression] = {}
    environment: dict[str, str] = {}
    data: dict[Name, DataStep] = {}
    facts: Facts = Facts()
    checks: dict[Name, CheckDeclaration] = {}
    limits: Limits | None = None


class Scenario(Declaration):
    """One end-to-end test of verl."""

    summary: Annotated[str, StringConstraints(min_length=10, max_length=100)]
    accelerator: Accelerator
    image: str
    needs: tuple[str, ...]
    """Capabilities that the image has to state."""
    script: str | None = None
    """The script of verl that this scenario stands for, relative to its repository."""
    knobs: dict[KnobName, Knob]
    derived: dict[KnobName, Expression] = {}
    """Values computed from knobs; a variable of the same name is not read."""
    layout: LayoutDeclaration
    rules: tuple[Rule, ...] = ()
    launcher: Launcher
    python_path: tuple[str, ...] = ()
    """Folders of the image that every process, Ray workers included, finds on PYTHONPATH."""
    environment: dict[str, str] = {}
    overrides: dict[str, Expression]
    """Hydra overrides of verl; a scenario replaces those of its base by name."""
    amendments: dict[str, Expression] = {}
    """Overrides given after `overrides`, as verl's Ascend script gives its own after the common ones: the last wins."""
    since: dict[str, str] = {}
    """Overrides that older releases of verl do not know: override to the first version that does."""
    models: dict[Name, str] = {}
    data: dict[Name, DataStep] = {}
    data_files: tuple[str, ...] = ()
    """Files the trainer reads, to be there once the data steps ran."""
    facts: Facts
    checks: dict[Name, CheckDeclaration] = Field(min_length=1)
    limits: Limits
    tier: Literal["gate", "extended"]
    """`gate` blocks a merge, `extended` informs."""
    cadence: Literal["pull_request", "nightly", "weekly", "label"]
    quarantine: Quarantine | None = None
    """It still runs and reports, but does not block, until the date."""
    triggers: tuple[str, ...] = Field(min_length=1)
    """Path filters of verl's repository, in GitHub's syntax, that start the scenario."""
    covers: tuple[Capability, ...] = Field(min_length=1)
    rehearsal: Rehearsal
