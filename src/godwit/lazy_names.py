"""Public names of a package that are imported from its modules when they are first used.

*Theory.* `from godwit.broker.messages import Publish` first runs `godwit/broker/__init__.py`. If that imported all that
the package offers, a client would load the whole broker for one message type, and NumPy with it. So a package with
large modules lists the module of each public name, and Python imports them one by one (PEP 562).

*Rules.*
1. A name is fetched once; later it is a usual attribute of the package.
2. An unknown name is an `AttributeError`, as in any module.
3. A name that is also the name of its module means the object that the module defines, in whatever order they are
   imported: Python alone would bind the name to the module.
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
    """A package in which a module has the name of an object that it defines. (rule 3)"""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}" and name in self.__all__:
            value = getattr(value, name)
        super().__setattr__(name, value)
