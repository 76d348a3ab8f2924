"""Names in Python sources: what is registered, listed, enumerated or compared to, found without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

Find = Callable[[ast.Module], Iterator[tuple[str, list[str]]]]
"""Yields names, each with the devices it is registered for."""


def calls_of(*names: str) -> Find:
    """Find calls such as ``register_trainer("sync")`` or ``EngineRegistry.register(backend=["fsdp"], device=…)``."""

    def find(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
        members = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_one_of(_dotted(node.func), names):
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                named = [keywords[name] for name in ("backend", "name", "names") if name in keywords]
                argument = next(iter([*named, *node.args]), None)
                devices = list(_texts(keywords["device"], members)) if "device" in keywords else []
                if not devices and "EngineRegistry.register" in names:
                    devices = ["cuda"]  # what verl's own register() defaults to
                for text in _texts(argument, members):
                    yield text, devices

    return find


def members_of(name: str) -> Find:
    """Find the values of an enumeration."""

    def find(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
        prefix = f"{name}."
        yield from ((value, []) for member, value in _constants(tree).items() if member.startswith(prefix))

    return find


def keys_of(name: str) -> Find:
    """Find the keys of a dictionary, where it is made and where it is added to; of a tuple the first part counts."""

    def find(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
        members = _constants(tree)
        for node in ast.walk(tree):
            keys: list[ast.expr | None] = []
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if _last(target) == name and isinstance(node.value, ast.Dict):
                        keys.extend(node.value.keys)
                    if isinstance(target, ast.Subscript) and _last(target.value) == name:
                        keys.append(target.slice)
            for key in keys:
                first = key.elts[0] if isinstance(key, ast.Tuple) and key.elts else key
                yield from ((text, []) for text in _texts(first, members))

    return find


def compared(name: str) -> Find:
    """Find the constants that a variable, attribute or parameter is compared to: ``x == "a"``, ``x in ["a", "b"]``."""

    def find(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and _last(node.left) == name:
                for operator, right in zip(node.ops, node.comparators, strict=True):
                    if isinstance(operator, (ast.Eq, ast.In)):
                        yield from ((text, []) for text in _texts(right, {}))

    return find


def listed(name: str) -> Find:
    """Find the texts of a list that is assigned to a name."""

    def find(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(_last(target) == name for target in node.targets):
                yield from ((text, []) for text in _texts(node.value, {}))

    return find


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module gives a name: ``NAME``, and ``Class.MEMBER`` of its classes."""
    scopes = [("", tree.body), *((f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef))]
    return {
        f"{prefix}{target.id}": statement.value.value
        for prefix, body in scopes
        for statement in body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _is_one_of(dotted: str, names: tuple[str, ...]) -> bool:
    """Compare a called name; whatever holds a registry may stand before it: ``module.XRegistry.register``."""
    return any(dotted == name or ("." in name and dotted.endswith(f".{name}")) for name in names)


def _texts(node: ast.expr | None, members: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts an argument stands for: a constant, an enumeration's member, or several in a list or a call."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Attribute() | ast.Name() if (name := _dotted(node)) in members:
            yield members[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            for element in elements:
                yield from _texts(element, members)
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg in {"names", "name"}:
                    yield from _texts(keyword.value, members)
        case _:
            return


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case _:
            return ""


def _last(node: ast.expr) -> str:
    return _dotted(node).rpartition(".")[2]
