"""The suite's own data in YAML: read strictly, validated as a whole, every fault told with what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from ci.errors import collected
from ci.scenarios.documents import StrictLoader, nearest

Content = TypeVar("Content")
Schema = dict[str, Any]


def read(path: Path, adapter: pydantic.TypeAdapter[Content], *, shown: str | None = None) -> Content:
    """Return what a file holds; ``shown`` is its name in messages.

    Raises:
        ConfigError: with a line for each problem.
    """
    what = shown or path.name
    try:
        data: Any = yaml.load(path.read_bytes(), StrictLoader)  # noqa: S506  # StrictLoader is a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise collected([f"{where}{error.problem}"], what=f"{what} cannot be read") from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise collected([str(error)], what=f"{what} cannot be read") from error
    try:
        return adapter.validate_python(data)
    except pydantic.ValidationError as error:
        schema = adapter.json_schema()
        raise collected([fault(detail, schema) for detail in error.errors()], what=f"{what} is not valid") from error


def fault(detail: Any, schema: Schema, *, missing: str = "is required") -> str:
    """Return one of pydantic's errors as field, what is wrong, what would be right."""
    location: tuple[str | int, ...] = detail["loc"]
    where = "".join(f"{part}." for part in location)[:-1]
    match detail["type"]:
        case "extra_forbidden":
            says = f"no such field{nearest(str(location[-1]), _fields_beside(location, schema))}"
        case "missing":
            says = missing
        case "literal_error" | "enum":
            says = f"`{detail['input']}` is not one of {detail['ctx']['expected']}"
        case "union_tag_invalid":
            where = f"{where}.{detail['ctx']['discriminator'].strip(chr(39))}"
            says = f"`{detail['ctx']['tag']}` is not one of {detail['ctx']['expected_tags']}"
        case "value_error" if isinstance(detail["input"], dict):
            says = detail["msg"].removeprefix("Value error, ")
        case _:
            says = f"{detail['msg'].removeprefix('Value error, ')} (it is {detail['input']!r})"
    return f"{where}: {says}" if where else says


def _fields_beside(location: tuple[str | int, ...], schema: Schema) -> tuple[str, ...]:
    """Return the fields that are known where an unknown one was found."""
    node: Any = schema
    for part in location[:-1]:
        node = _resolved(schema, node)
        if "discriminator" in node:
            node = {"$ref": node["discriminator"]["mapping"][str(part)]}
        elif part in node.get("properties", {}):
            node = node["properties"][part]
        elif isinstance(part, int) and "items" in node:
            node = node["items"]
        else:
            node = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), {})
    return tuple(_resolved(schema, node).get("properties", {}))


def _resolved(schema: Schema, node: Any) -> Any:
    for choice in node.get("anyOf", []):
        if "$ref" in choice:
            node = choice
    return schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
