"""Scenario files as plain data: read strictly, and merged with the bases they extend."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).parent
BASES = "bases"

Document = dict[str, Any]


class StrictLoader(yaml.CSafeLoader):
    """Safe loader that refuses a key given twice: PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys are all different."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"`{key}` is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def scenario_names(directory: Path = DIRECTORY) -> tuple[str, ...]:
    """Return the names of all scenarios: one file each."""
    return tuple(sorted(path.stem for path in directory.glob("*.yaml")))


def summaries(directory: Path = DIRECTORY) -> Iterator[tuple[str, str]]:
    """Yield name and summary of each scenario, fast and without judging anything: what ``nox -l`` needs."""
    for name in scenario_names(directory):
        try:
            document = yaml.load((directory / f"{name}.yaml").read_bytes(), StrictLoader)  # noqa: S506  # safe loader
            yield name, str(document["summary"])
        except (yaml.YAMLError, KeyError, TypeError):
            yield name, "this scenario's file is broken: `nox -s preflight` says where"


@dataclass(frozen=True, kw_only=True)
class Merged:
    """A scenario with its bases merged in, and the files it came from, the strongest first."""

    data: Document
    sources: tuple[tuple[Path, Document], ...]

    def file_of(self, location: tuple[str | int, ...]) -> Path:
        """Return the file that decides the value at a location, or the scenario's own where none does."""
        candidates = [(_depth(document, location), -index) for index, (_, document) in enumerate(self.sources)]
        return self.sources[-max(candidates)[1]][0]


def _depth(document: Any, location: tuple[str | int, ...]) -> int:
    depth = 0
    for part in location:
        if isinstance(document, dict) and part in document:
            document = document[part]
            depth += 1
        # a tag that pydantic adds for the kind of a union member is no key of the file: pass over it
    return depth


@dataclass(kw_only=True)
class Reader:
    """Read and merge the files of one directory, and collect what is wrong with them."""

    directory: Path = DIRECTORY
    problems: list[str] = field(default_factory=list)
    _read: dict[Path, Document] = field(default_factory=dict)

    def merged(self, name: str) -> Merged | None:
        """Return a scenario with its bases, or None where a file could not be read."""
        path = self.directory / f"{name}.yaml"
        chain = self._chain(path, ())
        if chain is None:
            return None
        data: Document = {}
        for _, document in chain:
            data = _merge(data, {key: value for key, value in document.items() if key != "extends"})
        return Merged(data=data, sources=tuple(reversed(chain)))

    def _chain(self, path: Path, extended_by: tuple[Path, ...]) -> list[tuple[Path, Document]] | None:
        shown = path.relative_to(self.directory)
        if path in extended_by:
            self.problems.append(
                f"{shown}: `extends` goes in a circle: {' → '.join(p.stem for p in (*extended_by, path))}"
            )
            return None
        document = self._document(path)
        if document is None:
            return None
        bases = document.get("extends", [])
        if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
            self.problems.append(f"{shown}: extends: has to be a list of names of files in {BASES}/")
            return None
        chain: list[tuple[Path, Document]] = []
        for base in bases:
            base_path = self.directory / BASES / f"{base}.yaml"
            if not base_path.is_file():
                known = sorted(p.stem for p in (self.directory / BASES).glob("*.yaml"))
                self.problems.append(f"{shown}: extends: no base `{base}`{nearest(base, known)}")
                return None
            links = self._chain(base_path, (*extended_by, path))
            if links is None:
                return None
            chain += [link for link in links if link not in chain]
        return [*chain, (path, document)]

    def _document(self, path: Path) -> Document | None:
        if path not in self._read:
            try:
                loaded = yaml.load(path.read_bytes(), StrictLoader)  # noqa: S506  # StrictLoader is a safe loader
            except yaml.MarkedYAMLError as error:
                mark = error.problem_mark
                where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
                self.problems.append(f"{path.relative_to(self.directory)}{where}: {error.problem}")
                return None
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                self.problems.append(f"{path.relative_to(self.directory)}: {error}")
                return None
            if not isinstance(loaded, dict):
                self.problems.append(f"{path.relative_to(self.directory)}: has to be a mapping of fields")
                return None
            self._read[path] = loaded
        return self._read[path]


def _merge(base: Document, child: Document) -> Document:
    """Merge mappings key by key; anything else replaces; null takes away what the base has."""
    merged = dict(base)
    for key, value in child.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inherited = merged.get(key)
            merged[key] = _merge(inherited if isinstance(inherited, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """Return a question for the nearest right word, or the list of all, to end a message with."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.7)
    if close:
        return f"; did you mean {' or '.join(f'`{match}`' for match in close)}?"
    return f"; known: {', '.join(known)}" if known else ""
