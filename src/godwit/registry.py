"""Names of parts in settings: built-in parts, parts that a program registers, and parts of installed packages.

*Theory.* A part is registered under a name by its module or by a program. A name that is not registered yet is looked
up among the modules that are declared to register it, and then among the entry points of installed packages. Either is
imported only then.

*Rules.*
1. A name means one part. Registering another part under the same name is an error.
2. An unknown name is a `ConfigurationError` that lists the known ones.
3. A registry with `by_module` also accepts `module:Name`, which is imported. This is for local settings only: a
   registry whose names come from peers, such as that of languages, must not import what a peer names.
"""

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from godwit.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Registry"]

Part = TypeVar("Part")


def entry_points(group: str) -> "Iterable[EntryPoint]":
    """Those of installed packages. The library takes 15 ms to load, and most clients never ask."""
    from importlib import metadata

    return metadata.entry_points(group=group)


class Registry(Generic[Part]):
    """Parts of one kind by name. `what` names the kind in messages, `group` is the group of entry points."""

    def __init__(self, what: str, group: str, *, by_module: bool = False) -> None:
        self.what = what
        self.group = group
        self.by_module = by_module
        self.registered: dict[str, Part] = {}
        self._modules: dict[str, str] = {}  # by the name that they register when they are imported
        self._found: tuple[EntryPoint, ...] | None = None

    def register(self, name: str, part: Part) -> None:
        """Register a part under a name. (rule 1)"""
        known = self.registered.setdefault(name, part)
        if known is not part:
            raise ValueError(f"there is a {self.what} {name!r} already: {known!r}")

    def expect(self, module: str, *names: str) -> None:
        """Declare that a module registers these names when it is imported."""
        self._modules.update(dict.fromkeys(names, module))

    def names(self) -> tuple[str, ...]:
        """Every name that can be used, sorted."""
        return tuple(sorted({*self.registered, *self._modules, *(each.name for each in self._installed())}))

    def fault(self, name: str) -> str | None:
        """The error of a name, as the end of a sentence; None if it is valid. (rules 2, 3)"""
        if self.by_module and ":" in name and name not in self.registered:
            try:
                self.part(name)
            except ConfigurationError as error:
                return f"is {name!r}: {error}"
            return None
        known = self.names()
        return None if name in known else f"is {name!r}: allowed is {', '.join(map(repr, known))}"

    def part(self, name: str) -> Part:
        """The part of that name; an installed one is loaded. (rules 2, 3)"""
        if self.by_module and ":" in name and name not in self.registered:
            self.registered[name] = self._imported(name)
        if name not in self.registered and name in self._modules:
            try:
                import_module(self._modules[name])
            except ModuleNotFoundError as error:
                raise ConfigurationError(
                    f"the {self.what} {name!r} needs {error.name}, which is not installed"
                ) from None
        if name not in self.registered:
            found = [each for each in self._installed() if each.name == name]
            if not found:
                known = ", ".join(self.names())
                raise ConfigurationError(f"there is no {self.what} {name!r}: known are {known}")
            loaded = found[0].load()
            self.registered.setdefault(name, loaded)  # the module that was loaded may have registered it itself
        return self.registered[name]

    def load_expected(self) -> None:
        """Import every declared module, except those whose libraries are not installed."""
        for name in self._modules:
            with suppress(ConfigurationError, ImportError):
                self.part(name)

    def _imported(self, name: str) -> Part:
        module, _, attribute = name.partition(":")
        try:
            found: Part = getattr(import_module(module), attribute)
        except ImportError as error:
            raise ConfigurationError(f"cannot import the {self.what} {name!r}: {error}") from None
        except AttributeError:
            raise ConfigurationError(f"cannot import the {self.what} {name!r}: {module} has no {attribute!r}") from None
        return found

    def _installed(self) -> "tuple[EntryPoint, ...]":
        if self._found is None:  # the lookup takes milliseconds
            self._found = tuple(entry_points(group=self.group))
        return self._found
