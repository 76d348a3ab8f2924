"""Workflow files with the line of everything in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml


class Text(str):
    """A scalar, kept as text: PyYAML would read ``on`` as true and a version such as 3.10 as a number."""

    __slots__ = ("block", "line")
    line: int
    block: bool
    """True where it is a ``|`` or ``>`` block, whose text begins on the next line."""


class Section(dict[str, Any]):
    """A mapping with its own line, and that of each key."""

    line: int
    lines: dict[str, int]


class Items(list[Any]):
    """A sequence with its line."""

    line: int


def parse(content: bytes) -> Section:
    """Return a workflow.

    Raises:
        yaml.YAMLError: when it is no YAML.
        ValueError: when it is no mapping.
    """
    node = yaml.compose(content, yaml.CBaseLoader)
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("it is no mapping of `name`, `on` and `jobs`")  # noqa: TRY004  # the caller's file, not its type
    return _section(node)


def _section(node: yaml.MappingNode) -> Section:
    section = Section()
    section.line = node.start_mark.line + 1
    section.lines = {}
    for key, value in node.value:
        section[str(key.value)] = _built(value)
        section.lines[str(key.value)] = key.start_mark.line + 1
    return section


def _built(node: yaml.Node) -> Any:
    line = node.start_mark.line + 1
    match node:
        case yaml.MappingNode():
            return _section(node)
        case yaml.SequenceNode():
            items = Items(_built(item) for item in node.value)
            items.line = line
            return items
        case yaml.ScalarNode():
            text = Text(node.value)
            text.line = line
            text.block = node.style in {"|", ">"}
            return text
        case _:
            raise ValueError(f"line {line}: a node of an unknown kind")


def words(value: Any) -> tuple[str, ...]:
    """Return what may be one text or a list of them as a tuple."""
    match value:
        case str():
            return (value,) if value else ()
        case Sequence():
            return tuple(item for item in value if isinstance(item, str))
        case _:
            return ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a job."""

    data: Section

    @property
    def run(self) -> Text | None:
        """Return its shell text."""
        value = self.data.get("run")
        return value if isinstance(value, Text) else None

    @property
    def uses(self) -> Text | None:
        """Return the action it uses."""
        value = self.data.get("uses")
        return value if isinstance(value, Text) else None


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a workflow."""

    identifier: str
    line: int
    data: Section

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return its steps."""
        return tuple(Step(data=step) for step in self.data.get("steps") or () if isinstance(step, Section))

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the jobs it waits for."""
        return words(self.data.get("needs"))

    @property
    def called(self) -> Text | None:
        """Return the reusable workflow it stands for."""
        value = self.data.get("uses")
        return value if isinstance(value, Text) else None


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """One workflow file."""

    path: str
    data: Section

    @property
    def name(self) -> str:
        """Return its name, as GitHub shows it."""
        return str(self.data.get("name") or self.path)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return its jobs, in order."""
        jobs = self.data.get("jobs")
        if not isinstance(jobs, Section):
            return ()
        return tuple(
            Job(identifier=key, line=jobs.lines[key], data=job) for key, job in jobs.items() if isinstance(job, Section)
        )

    @property
    def events(self) -> Mapping[str, Any]:
        """Return what starts it: event to its settings."""
        on = self.data.get("on")
        return on if isinstance(on, Section) else dict.fromkeys(words(on))

    def filters(self) -> Iterator[tuple[str, str, Items]]:
        """Yield event, ``paths`` or ``paths-ignore``, and the patterns."""
        for event, settings in self.events.items():
            if isinstance(settings, Section):
                for kind in ("paths", "paths-ignore"):
                    if isinstance(settings.get(kind), Items):
                        yield event, kind, settings[kind]
