"""Text with styles is wrapped by the columns that it takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.cli.terminal.styled_text import Text, coded, plain, width_of

WORDS = st.text(alphabet="ab é字\u0301\n", max_size=60)


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("Zürich", 6), ("字", 2), ("e\u0301", 1), ("", 0)])
def test_the_width_is_in_columns(text: str, width: int) -> None:
    assert width_of(text) == width


def test_lines_break_at_spaces_and_long_words_are_divided() -> None:
    text = Text("one two three\nfour abcdefghijkl")
    assert [plain(line) for line in text.lines(8)] == ["one two", "three", "four", "abcdefgh", "ijkl"]
    assert [plain(line) for line in text.lines(None)] == ["one two three", "four abcdefghijkl"]


def test_a_style_goes_on_behind_a_break() -> None:
    text = Text.assemble("a ", ("bb cc", "bold red"), Text(" d", "dim"))
    assert text.plain == "a bb cc d"
    assert [coded(line) for line in text.lines(4)] == [
        "a \x1b[1;31mbb\x1b[0m",
        "\x1b[1;31mcc\x1b[0m\x1b[2m d\x1b[0m",
    ]
    assert coded([("x", "bold white on red"), ("y", "")]) == "\x1b[1;37;41mx\x1b[0my"


@given(WORDS, st.integers(2, 20))
def test_nothing_but_spaces_and_breaks_is_lost_and_no_line_is_too_wide(text: str, width: int) -> None:
    lines = [plain(line) for line in Text(text).lines(width)]
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
