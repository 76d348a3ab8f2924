"""Stand-ins for what verl's configuration code imports but does not need: torch, transformers, ray and others.

verl's dataclasses are plain Python; what stands in their way is what their modules import. So verl's packages are
made without running their ``__init__``, the modules that hold configuration are read as they are, and everything else
that is neither Python's own nor Hydra's is a module whose every attribute is a class that does nothing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import MutableSequence, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_REAL_PACKAGES = ("verl.trainer.config", "verl.workers.config")
# Packages whose __init__ imports torch, made bare, and the module of each whose names its __init__ would have offered.
_BARE_PACKAGES = {
    "verl": "",
    "verl.trainer": "",
    "verl.trainer.distillation": "verl.trainer.distillation.losses",
    "verl.utils": "",
    "verl.utils.profiler": "verl.utils.profiler.config",
    "verl.utils.qat": "verl.utils.qat.core",
    "verl.utils.skip": "verl.utils.skip.config",
    "verl.workers": "",
}
_REAL_MODULES = frozenset({"verl.base_config", "verl.utils.config", *filter(None, _BARE_PACKAGES.values())})
_PRESENT = frozenset({*sys.stdlib_module_names, "omegaconf", "hydra", "antlr4", "yaml", "_yaml"})


class _Anything(type):
    """A class with every attribute, so that a stand-in can be asked for whatever the real one has."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)


class Absent(metaclass=_Anything):
    """What an absent module's attribute is: a base class, a decorator, a type, a value; it never does anything."""

    def __init__(self, *_arguments: object, **_keywords: object) -> None:
        pass

    def __class_getitem__(cls, _item: object) -> type[Absent]:
        """Be as good with parameters as without: ``DataProto[…]``."""
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __call__(self, *arguments: Any, **_keywords: object) -> Any:
        """Be a decorator that changes nothing, or a function that returns another stand-in."""
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __bool__(self) -> bool:
        return False


class _AbsentModule(ModuleType):
    """A module whose every attribute is a stand-in."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 (what ModuleType declares)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        stand_in = _stand_in(name)
        setattr(self, name, stand_in)
        return stand_in


class _BareModule(ModuleType):
    """A package without its ``__init__``, which offers the names of one module of it, and stand-ins for the rest."""

    offers: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.offers:
            module = importlib.import_module(self.offers)
            if hasattr(module, name):
                return getattr(module, name)
        return _stand_in(name)


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds verl's configuration modules under a folder, and a stand-in for everything else that is not Python's."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Decide how a module is made: really, bare, as a stand-in, or by Python's own finders."""
        del path, target
        top = fullname.partition(".")[0]
        if top in _PRESENT:
            return None
        place = self.root.joinpath(*fullname.split("."))
        if fullname in _BARE_PACKAGES and place.is_dir():
            spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        if fullname in _REAL_MODULES or any(_is_in(fullname, package) for package in _REAL_PACKAGES):
            package = place / "__init__.py"
            if package.is_file():
                return importlib.util.spec_from_file_location(
                    fullname, package, submodule_search_locations=[str(place)]
                )
            module = place.with_suffix(".py")  # beside it may be a folder of the same name, full of YAML
            if module.is_file():
                return importlib.util.spec_from_file_location(fullname, module)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make a bare package or a stand-in."""
        if spec.name in _BARE_PACKAGES:
            module = _BareModule(spec.name)
            module.offers = _BARE_PACKAGES[spec.name]
            return module
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: neither a bare package nor a stand-in has code."""


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _stand_in(name: str) -> _Anything:
    return _Anything(name, (Absent,), {})
