"""Run a hook right after a module was imported, without importing it oneself.

verl's modules pull in torch, ray and transformers, and most processes need only some of them.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


class _PostImportFinder(MetaPathFinder):
    """Finds a module as the other finders do, and lets its hooks run once the module's own code has."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hooks = self.hooks.get(fullname)
        if hooks is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _run_after(spec.loader, hooks)
                return spec
        return None


def _run_after(loader: Any, hooks: Sequence[Hook]) -> None:
    """Extend this one loader; it is made anew for each module, so nothing else is touched."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for hook in hooks:
            hook(module)

    loader.exec_module = exec_module


_finder = _PostImportFinder()


def after_import(name: str, hook: Hook) -> None:
    """Call the hook with the module as soon as it is imported: at once when it already is.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    module = sys.modules.get(name)
    if module is not None:
        hook(module)
        return
    if not _exists(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.hooks.setdefault(name, []).append(hook)


def _exists(name: str) -> bool:
    """Look the module up package by package; `importlib.util.find_spec` alone would import the packages above it."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in rest:
        if spec is None:
            return False
        top = f"{top}.{part}"
        spec = PathFinder.find_spec(top, spec.submodule_search_locations)
    return spec is not None
