"""The catalogue: every scenario, validated as a whole, with all errors at once."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pydantic

from ci.data_files import fault
from ci.errors import ConfigError, collected
from ci.scenarios.documents import DIRECTORY, Reader, nearest, scenario_names
from ci.scenarios.model import Scenario

Catalogue = dict[str, Scenario]
_MISSING = "is required, and neither the file nor a base gives it"
SCHEMA = DIRECTORY / "scenario.schema.json"


@functools.cache
def load(directory: Path = DIRECTORY) -> Catalogue:
    """Return every scenario by name.

    Raises:
        ConfigError: with one line for each problem of any file: file, field, what is wrong, what would be right.
    """
    reader = Reader(directory=directory)
    catalogue: Catalogue = {}
    problems: list[str] = []
    for name in scenario_names(directory):
        merged = reader.merged(name)
        if merged is None:
            continue
        try:
            catalogue[name] = Scenario.model_validate(merged.data)
        except pydantic.ValidationError as error:
            schema = Scenario.model_json_schema()
            problems += [
                f"{merged.file_of(detail['loc']).relative_to(directory)}: {fault(detail, schema, missing=_MISSING)}"
                for detail in error.errors()
            ]
    # a fault of a base shows in every scenario that extends it: say it once
    problems = list(dict.fromkeys((*reader.problems, *problems)))
    if problems:
        raise collected(problems, what=f"the catalogue in {directory.name}/ is not valid")
    return catalogue


def scenario_called(name: str, catalogue: Catalogue) -> Scenario:
    """Return one scenario, under its name or its session's."""
    bare = name.removeprefix("e2e_")
    if bare not in catalogue:
        raise ConfigError(f"no scenario is called `{name}`{nearest(bare, tuple(catalogue))}")
    return catalogue[bare]


def schema_text() -> str:
    """Return the JSON schema of a scenario file, for editors: the model, less what a base may give."""
    schema = Scenario.model_json_schema()
    schema["title"] = "A scenario of verl's end-to-end CI"
    for part in (schema, *schema["$defs"].values()):
        if part["type"] == "object":
            # a file may leave to its bases what they give, and take it away with null
            part.pop("required", None)
            part["properties"] = {key: _or_null(value) for key, value in part["properties"].items()}
    schema["properties"]["extends"] = {
        "type": "array",
        "items": {"enum": sorted(path.stem for path in (DIRECTORY / "bases").glob("*.yaml"))},
        "description": "Bases whose fields this file takes over, the later ones winning.",
    }
    schema["properties"] = dict(sorted(schema["properties"].items()))
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return schema | {"additionalProperties": {"anyOf": [values, {"type": "null"}]}}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **described}
