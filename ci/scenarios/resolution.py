"""Knobs read from the environment, and a scenario's expressions resolved against them.

OmegaConf does the interpolation, as in verl itself; the resolvers registered here give it the arithmetic of a shell.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ci.errors import collected
from ci.scenarios.documents import nearest
from ci.scenarios.hydra_values import reads_as_text
from ci.scenarios.model import Knob, Rule, Scenario

KnobValue = str | int
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


def _divide(dividend: int, divisor: int) -> int:
    # a shell truncates towards zero, Python floors
    return int(math.copysign(abs(dividend) // abs(divisor), dividend * divisor)) if divisor else 0


def _register_resolvers() -> None:
    for name, function in (
        ("add", lambda *terms: sum(terms)),
        ("subtract", lambda first, second: first - second),
        ("multiply", lambda *factors: math.prod(factors)),
        ("divide", _divide),
        ("lower", str.lower),
        ("basename", lambda path: posixpath.basename(path.rstrip("/"))),
    ):
        OmegaConf.register_new_resolver(name, function, replace=True)


_register_resolvers()


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A scenario in which every expression has become its value, with the knobs that made it so."""

    scenario: Scenario
    knobs: dict[str, KnobValue]
    given: dict[str, str]
    """Knobs that the environment set, as it set them: what a line to reproduce the run has to repeat."""


def resolve(name: str, scenario: Scenario, *, environment: Mapping[str, str], rehearsal: bool, cache: str) -> Resolved:
    """Return the scenario for this environment; in a rehearsal its defaults are the rehearsal's.

    Raises:
        ConfigError: with a line for each knob that is not what it may be, or for each rule the knobs break together.
    """
    problems: list[str] = []
    given: dict[str, str] = {}
    values: dict[str, Any] = {"HOME": environment.get("HOME", "/root"), "CACHE": cache}
    for knob_name, knob in scenario.knobs.items():
        text = environment.get(knob_name, "")  # empty is unset, as in the shell's ${NAME:-default}
        default = scenario.rehearsal.knobs.get(knob_name, knob.default) if rehearsal else knob.default
        values[knob_name] = default
        if text:
            given[knob_name] = text
            problem = _problem_with(text, knob_name, knob)
            if problem is None:
                values[knob_name] = int(text) if knob.type == "integer" else text
            else:
                problems.append(problem)
    values |= scenario.derived
    document = OmegaConf.create({**values, "scenario": scenario.model_dump(mode="python")})
    try:
        plain: Any = OmegaConf.to_container(document, resolve=True)
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        field = str(getattr(error, "full_key", "") or "").removeprefix("scenario.")
        raise collected(
            [f"{field or 'an expression'}: {reason}"], what=f"scenario {name} cannot be resolved"
        ) from error
    resolved = Scenario.model_validate(plain["scenario"])
    knobs: dict[str, KnobValue] = {key: plain[key] for key in scenario.knobs}
    if not problems:
        # a default can be computed from other knobs, and come out wrong
        problems += [
            f"{problem}, by default {scenario.knobs[key].default}"
            for key, knob in resolved.knobs.items()
            if key not in given and (problem := _problem_with(str(knobs[key]), key, knob)) is not None
        ]
    if not problems:
        problems += layout_problems(resolved)
        problems += [broken for rule in resolved.rules if (broken := _broken(rule))]
    if problems:
        raise collected(problems, what=f"e2e_{name} cannot be planned")
    return Resolved(scenario=resolved, knobs=knobs, given=given)


def _problem_with(text: str, name: str, knob: Knob) -> str | None:
    """Return what is wrong with a knob's text, and what would be right, or None."""
    complaint = _not_its_type(text, knob)
    if complaint is None and knob.type in {"integer", "number"}:
        complaint = _out_of_bounds(float(text), knob)
    return None if complaint is None else f"{name}={text}: {complaint}"


def _not_its_type(text: str, knob: Knob) -> str | None:
    complaint: str | None = None
    match knob.type:
        case "integer" if not _INTEGER.fullmatch(text) or text == "-0":
            octal = "; a leading zero makes a shell read it as octal" if re.fullmatch(r"-?0[0-9]+", text) else ""
            complaint = f"has to be a whole number such as {_example(knob)}{octal}"
        case "number" if not _NUMBER.fullmatch(text):
            complaint = f"has to be a number such as {_example(knob)}"
        case "boolean" if text not in {"True", "False", "true", "false"}:
            complaint = "has to be True or False"
        case "choice" if text in knob.elsewhere:
            complaint = f"that is another scenario; run `nox -s e2e_{knob.elsewhere[text]}`"
        case "choice" if text not in knob.choices:
            complaint = f"has to be one of {', '.join(knob.choices)}{_did_you_mean(text, knob.choices)}"
        case "path" if not reads_as_text(text):
            complaint = "Hydra would not read this as a path; move or link it to a plain name"
        case "text" if knob.pattern and not re.fullmatch(knob.pattern, text, re.ASCII):
            complaint = f"has to look like {_example(knob)}"
    return complaint


def _out_of_bounds(value: float, knob: Knob) -> str | None:
    if not math.isfinite(value):
        return "is too large"
    if knob.minimum is not None and value < knob.minimum:
        return f"has to be at least {knob.minimum:g} ({knob.help})"
    if knob.above is not None and value <= knob.above:
        return f"has to be more than {knob.above:g} ({knob.help})"
    if knob.maximum is not None and value > knob.maximum:
        return f"has to be at most {knob.maximum:g} ({knob.help})"
    return None


def _example(knob: Knob) -> str:
    return str(knob.default) if "${" not in str(knob.default) else str(int(knob.minimum or 1))


def _did_you_mean(text: str, choices: tuple[str, ...]) -> str:
    suggestion = nearest(text.lower(), choices)
    return suggestion if suggestion.startswith("; did") else ""


def layout_problems(scenario: Scenario) -> list[str]:
    """Return what does not add up in a resolved layout."""
    layout = scenario.layout
    shown = " + ".join(f"{role} {part.devices}" for role, part in layout.roles.items())
    problems = [
        f"layout: {role} gets {part.devices} devices; every role needs at least one"
        for role, part in layout.roles.items()
        if integer(part.devices) < 1
    ]
    total = sum(integer(part.devices) for part in layout.roles.values())
    if not layout.colocated and total != integer(layout.devices):
        problems.append(f"layout: {shown} is {total} devices, but there are {layout.devices}")
    for role, part in layout.roles.items():
        reason = f": {part.because}" if part.because else ""
        if integer(part.multiple_of) < 1 or integer(part.devices) % integer(part.multiple_of):
            problems.append(f"layout: {role} has {part.devices} devices, not a multiple of {part.multiple_of}{reason}")
        if part.exactly is not None and integer(part.devices) != integer(part.exactly):
            problems.append(f"layout: {role} has {part.devices} devices, not {part.exactly}{reason}")
    return problems


def _broken(rule: Rule) -> str | None:
    value = integer(rule.value)
    if rule.multiple_of is not None and value % integer(rule.multiple_of):
        return f"{rule.because} ({value} is not a multiple of {rule.multiple_of})"
    if rule.at_most is not None and value > integer(rule.at_most):
        return f"{rule.because} ({value} is more than {rule.at_most})"
    return None


def integer(value: int | str) -> int:
    """Return a resolved expression as the integer it has to be."""
    return int(value)
