"""Commands of the command line, made from the signatures of functions.

*Theory.* A function becomes a command of click: its docstring is the help, and each parameter an option or an argument,
as `Annotated[type, Option(...)]` or `Annotated[type, Argument(...)]` says. The type determines the allowed values:
text, numbers within bounds, paths, members of an enumeration, flags, and lists for what may be repeated.

*Rules.*
1. Help is plain text: options, arguments, their bounds, defaults and variables, in the order of the signature.
2. Commands of a group are listed in the order in which they were added.
3. A value that is not allowed is a message that names it and what is allowed, with exit status 2.
"""

import inspect
import types
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import click
from click import BadParameter, echo, prompt
from click.exceptions import Abort, Exit

__all__ = ["Abort", "Argument", "BadParameter", "Exit", "Group", "Option", "echo", "prompt"]

Function = TypeVar("Function", bound=Callable[..., Any])
REQUIRED = inspect.Parameter.empty


class Option:
    """An option. Without names it has that of its parameter: `queue_max` is `--queue-max`."""

    def __init__(
        self,
        *names: str,
        help: str = "",
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        envvar: str | None = None,
        show_default: bool = True,
    ) -> None:
        self.names, self.help, self.metavar, self.envvar = names, help, metavar, envvar
        self.min, self.max, self.show_default = min, max, show_default


class Argument:
    """A word at its place. With a list, it takes all words that are left."""

    def __init__(self, *, metavar: str | None = None, help: str = "", show_default: bool = True) -> None:
        self.metavar, self.help, self.show_default = metavar, help, show_default


class Kind(NamedTuple):
    """What the annotation of a parameter allows."""

    type: Any
    is_list: bool
    says: Option | Argument


class Group(click.Group):
    """Commands, and groups of commands, under one name. Alone it prints its help."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        super().__init__(name, no_args_is_help=True, **more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands. (rule 2)"""
        return list(self.commands)

    def add(self, name: str = "", *, short_help: str | None = None) -> Callable[[Function], Function]:
        """Add a function as a command: `group.add("name")(function)`, or as a decorator."""

        def added(function: Function) -> Function:
            self.add_command(command_of(function, name or function.__name__.replace("_", "-"), short_help))
            return function

        return added


class Word(click.Argument):
    """An argument, with its default in the help, and in brackets in the usage if it may be left out."""

    def __init__(self, *names: Any, shows_default: bool = True, **more: Any) -> None:
        super().__init__(*names, **more)
        self._shows_default = shows_default and isinstance(self.default, str | int | Path) and self.default != ""

    def make_metavar(self, ctx: click.Context) -> str:
        """The argument in the line of usage."""
        shown = self.human_readable_name
        return f"{shown if self.required else f'[{shown}]'}{'...' if self.nargs != 1 else ''}"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """The argument in the list of arguments."""
        return self.human_readable_name, f"{self.help}{f'  [default: {self.default}]' if self._shows_default else ''}"


def command_of(function: Callable[..., Any], name: str, short_help: str | None = None) -> click.Command:
    """The command that calls a function with the values of its options and arguments."""
    hints = get_type_hints(function, include_extras=True)
    given = [
        (parameter, kind_of(hints[parameter.name])) for parameter in inspect.signature(function).parameters.values()
    ]
    lists = {parameter.name: parameter.default for parameter, kind in given if kind.is_list}

    def called(**values: Any) -> Any:
        for each, default in lists.items():
            values[each] = list(values[each]) or default
        return function(**values)

    return click.Command(
        name,
        params=[parameter_of(parameter, kind) for parameter, kind in given],
        callback=called,
        help=inspect.getdoc(function),
        short_help=short_help,
    )


def kind_of(annotation: Any) -> Kind:
    """What an annotation says: its type without `| None` and `list`, and the option or argument."""
    parts = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
    says = next((each for each in parts[1:] if isinstance(each, Option | Argument)), Option())
    wanted = parts[0]
    if isinstance(wanted, types.UnionType):
        [wanted] = [each for each in get_args(wanted) if each is not type(None)]
    is_list = get_origin(wanted) is list
    return Kind(get_args(wanted)[0] if is_list else wanted, is_list, says)


def parameter_of(parameter: inspect.Parameter, kind: Kind) -> click.Parameter:
    """An option or an argument of a command."""
    says, default = kind.says, parameter.default
    more: dict[str, Any] = {"type": type_of(kind), "required": default is REQUIRED, "metavar": says.metavar}
    if default is not REQUIRED and not (kind.is_list and not default):
        more["default"] = default.value if isinstance(default, Enum) else default
    if isinstance(says, Argument):
        return Word(
            [parameter.name],
            **({"nargs": -1} if kind.is_list else {}),
            help=says.help,
            shows_default=says.show_default,
            **more,
        )
    dashed = f"--{parameter.name.replace('_', '-')}"
    names = says.names or ((f"{dashed}/--no-{dashed[2:]}" if kind.type is bool else dashed),)
    if kind.type is bool:
        more |= {"is_flag": True}
    shows_default = says.show_default and default not in (None, REQUIRED, "") and default is not False
    return click.Option(
        [parameter.name, *names],
        help=says.help,
        envvar=says.envvar,
        show_envvar=True,
        show_default=shows_default and not kind.is_list,
        multiple=kind.is_list,
        **more,
    )


def type_of(kind: Kind) -> Any:
    """The type of a value for click. (rule 3)"""
    wanted, says = kind.type, kind.says
    if isinstance(says, Option) and (says.min, says.max) != (None, None):
        bounds: Any = (says.min, says.max)
        return (click.IntRange if wanted is int else click.FloatRange)(*bounds)
    if wanted is Path:
        return click.Path(path_type=Path)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return Members(wanted)
    return wanted


class Members(click.Choice[Any]):
    """The members of an enumeration, by their values."""

    def __init__(self, wanted: type[Enum]) -> None:
        super().__init__([str(each.value) for each in wanted])
        self._wanted = wanted

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The member of a value."""
        return value if isinstance(value, self._wanted) else self._wanted(super().convert(value, param, ctx))
