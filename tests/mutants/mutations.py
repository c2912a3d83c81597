"""Small changes of a module's text, each of which should make a test fail.

A change replaces one piece of the text, found through the syntax tree; everything else stays as it is, to the byte.
Texts, annotations, `__all__`, assertions, `__repr__` and what only type checkers read are left alone.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Mutation", "mutated", "mutations"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SUMS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
UNTOUCHED_FUNCTIONS = {"__repr__", "__str__"}
ONE_MORE_FROM = 2  # numbers below are mostly places in a tuple


class Mutation(NamedTuple):
    """One change: lines count from 1, columns in bytes from 0, as in the syntax tree."""

    kind: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.function}: {self.kind}: {self.before!r} becomes {self.after!r}"


def mutations(text: str) -> list[Mutation]:
    """All changes that are tried on a module, in the order of its text."""
    found = _Finder(text)
    found.visit(ast.parse(text))
    return sorted(found.found, key=lambda each: (each.line, each.column, each.kind))


def mutated(text: str, mutation: Mutation) -> str:
    """The text with that change."""
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: mutation.line - 1]) + lines[mutation.line - 1][: mutation.column]
    after = lines[mutation.end_line - 1][mutation.end_column :] + b"".join(lines[mutation.end_line :])
    return (before + mutation.after.encode() + after).decode()


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.found: list[Mutation] = []
        self._lines = text.encode().splitlines(keepends=True)
        self._inside: list[str] = []

    def _note(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        *lines, last = self._lines[node.lineno - 1 : node.end_lineno]  # `get_source_segment` splits all of it each time
        before = b"".join([*lines, last[: node.end_col_offset]])[node.col_offset :].decode()
        self.found.append(Mutation(kind, ".".join(self._inside) or "module", *place, before, after))

    # ------------------------------------------------------------ where to look

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in UNTOUCHED_FUNCTIONS:
            self._enter(node.name, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (a name of the visitor)

    def _enter(self, name: str, body: list[ast.stmt]) -> None:
        self._inside.append(name)
        for statement in body:
            self.visit(statement)
        self._inside.pop()

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) != "__all__":
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    # ------------------------------------------------------------ what to change

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and (other := COMPARISONS.get(type(node.ops[0]))) is not None:
            changed = ast.Compare(node.left, [other()], node.comparators)
            self._note("comparison", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._note("and/or", node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._note("not", node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = SUMS.get(type(node.op))
        if other is not None and not any(isinstance(each, ast.JoinedStr) for each in ast.walk(node)):
            self._note("sum", node, f"({ast.unparse(ast.BinOp(node.left, other(), node.right))})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._note("constant", node, str(not node.value))
        elif isinstance(node.value, int | float) and node.value >= ONE_MORE_FROM:
            self._note("constant", node, repr(node.value * 1_000))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await):
            self._note("dropped call", node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)


def all_of(texts: dict[str, str]) -> Iterator[tuple[str, Mutation]]:
    """All changes of many modules, by their names."""
    for name in sorted(texts):
        for each in mutations(texts[name]):
            yield name, each
