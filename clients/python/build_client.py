"""Builds the distribution `godwit-client` from the modules of `godwit` that a client needs.

The modules are found by their imports, beginning with `ROOTS`. They are copied under another name, `godwit_client`: so
the client and a whole Godwit can be installed side by side, and no file belongs to both. (docs/decisions/0636)
"""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # a test uses the functions alone
    BuildHookInterface = object  # type: ignore[assignment,misc]

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGE, NAME = "godwit", "godwit_client"
ROOTS = ("godwit.runtime.connecting", "godwit.runtime.blocking", "godwit.runtime.tls")
LANGUAGES = "languages"  # all of this room: it is loaded by name
LEFT_OUT = ("godwit.testing",)  # what `godwit` offers besides
IMPORT = re.compile(r"^(\s*(?:from|import)\s+)godwit\b", re.MULTILINE)
BY_NAME = re.compile(r"\b((?:import_module|expect)\(f?\")godwit\b")


class ClientBuilder(BuildHookInterface):  # type: ignore[type-arg,unused-ignore]
    """Adds the renamed modules to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules to a folder, and let the wheel include them."""
        folder = Path(self.directory) / NAME
        shutil.rmtree(folder, ignore_errors=True)
        write_package(folder)
        build_data["force_include"][str(folder)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        shutil.rmtree(Path(self.directory) / NAME, ignore_errors=True)


def write_package(folder: Path) -> None:
    """Write all modules of a client, renamed, below a folder."""
    for module in sorted(needed()):
        source = file_of(module)
        assert source is not None
        to = folder / source.relative_to(SOURCE / PACKAGE)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(renamed(source.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copy(SOURCE / PACKAGE / "py.typed", folder / "py.typed")


def renamed(text: str) -> str:
    """A module whose imports are those of the other name; texts and names on the wire stay."""
    return BY_NAME.sub(rf"\1{NAME}", IMPORT.sub(rf"\1{NAME}", text))


def needed() -> set[str]:
    """The modules of a client: what is imported from its roots, at the top of modules and inside of functions."""
    room = SOURCE / PACKAGE / LANGUAGES
    languages = [".".join(each.relative_to(SOURCE).with_suffix("").parts) for each in room.rglob("*.py")]
    wanted, found = [*ROOTS, *(each.removesuffix(".__init__") for each in languages)], set[str]()
    while wanted:
        module = wanted.pop()
        if module in found or module.startswith(LEFT_OUT) or file_of(module) is None:
            continue
        found.add(module)
        wanted += [module.rpartition(".")[0], *imported(module)]
    return found


def imported(module: str) -> Iterator[str]:
    """The modules of Godwit that a module imports when it runs."""
    file = file_of(module)
    assert file is not None
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        else:
            waiting += ast.iter_child_nodes(node)


def file_of(module: str) -> Path | None:
    """The file of a module of Godwit; None if it is another one."""
    if module.partition(".")[0] != PACKAGE:
        return None
    path = SOURCE.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
