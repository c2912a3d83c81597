"""Names that a package offers and fetches from its modules when they are asked for.

*Theory.* `from godwit.broker.messages import Publish` first runs `godwit/broker/__init__.py`. If that imported all that
the package offers, a client would load the whole broker for one message type, and NumPy with it. So a package that has
heavy modules names where each of its names is, and Python asks for them one by one (PEP 562).

*Rules.*
1. A name is fetched once; later it is a usual attribute of the package.
2. A name that the package does not offer is an `AttributeError`, as in any module.
3. A name that is also that of its module is what the module defines, whoever imports the module first: Python would
   put the module in its place.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["names_from"]


def names_from(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `modules` has for each name the module of the package that defines it."""
    if any(name == module for name, module in modules.items()):
        sys.modules[package].__class__ = _PackageOfNamesakes

    def fetched(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")  # (rule 2)
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # (rule 1)
        return value

    return fetched


class _PackageOfNamesakes(ModuleType):
    """A package in which a module has the name of what it defines. (rule 3)"""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}" and name in self.__all__:
            value = getattr(value, name)
        super().__setattr__(name, value)
