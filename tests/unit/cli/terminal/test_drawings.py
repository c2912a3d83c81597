"""Drawings are made of others."""

from godwit.cli.terminal import Beside, Drawing, Framed, Indented, Stacked, Text, Tree
from godwit.cli.terminal.styled_text import plain


def shown(drawing: Drawing, width: int = 40) -> list[str]:
    return [plain(line) for line in drawing.lines(width)]


def test_a_tree_has_a_guide_for_each_branch_and_wraps_behind_it() -> None:
    tree = Tree("AND")
    branch = tree.add("OR")
    branch.add("a = 1")
    branch.add("b is long")
    tree.add(Text("c"))
    assert shown(tree, 12) == ["AND", "├── OR", "│   ├── a =", "│   │   1", "│   └── b is", "│       long", "└── c"]


def test_two_drawings_are_side_by_side_if_there_is_room() -> None:
    beside = Beside(Framed("town", title="map"), Stacked("a", Indented("b", 2)))
    assert shown(beside) == ["╭─ map ─╮ a", "│ town  │   b", "╰───────╯"]
    assert shown(beside, 12) == ["╭─ map ─╮", "│ town  │", "╰───────╯", "a", "  b"]
