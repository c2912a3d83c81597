"""What the conventions look at: the files of the repository, its rooms and the modules in them."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "godwit"


def rooms() -> list[str]:
    """Every room of the design, lowest first: the layers of import-linter's contract in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [contract] = [c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    return [layer.strip("()") for layer in reversed(contract["layers"])]


@dataclass(frozen=True)
class Module:
    """One module of the package; `name` is its path below src/godwit, such as `filters/values.py`."""

    name: str
    text: str

    @property
    def room(self) -> str:
        return PurePosixPath(self.name).parts[0].removesuffix(".py")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and dotted name of each import, wherever it stands. A relative one keeps its leading dots."""
        return list(self._imports())

    def _imports(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package: read once for all tests, and parsed once, for that is what takes time."""
    return tuple(
        Module(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


def files() -> list[Path]:
    """Every file that is or could be committed: tracked, or neither tracked nor ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError):  # no git, or a copy without its history
        paths = (path for path in ROOT.rglob("*") if not _is_hidden(path.relative_to(ROOT)))
    else:
        paths = (ROOT / name for name in listed.stdout.split("\0"))
    return sorted(path for path in set(paths) if path.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part == "__pycache__" or (part.startswith(".") and part != ".ci") for part in path.parts)


def documents() -> list[Path]:
    """Every page a reader is meant to read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
