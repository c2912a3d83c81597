"""Parts of questions and answers: what is long is cut, and not computed first."""

import pytest

from godwit.filters.filters import Filter
from godwit.filters.language import parse, to_text
from godwit.runtime import question_parts
from godwit.runtime.question_parts import LITERALS_SHOWN, TEXT_MAX, shown

LITERALS = " OR ".join(f"(a{number} > {number} AND b{number} < {number})" for number in range(450))


@pytest.mark.parametrize(
    "text",
    [LITERALS, f"kind = 'parking' AND ({LITERALS})", " AND ".join(f"a{number} = {number}" for number in range(900))],
)
def test_of_a_large_filter_the_beginning_is_shown_and_no_more_is_printed(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    printed: list[int] = []

    def noted(filter: Filter) -> str:
        printed.append(filter.size)
        return to_text(filter)

    monkeypatch.setattr(question_parts, "to_text", noted)
    filter = parse(text)
    told = shown(filter)
    assert told.endswith("…")
    assert to_text(filter).startswith(told[:-1].rstrip(")"))
    assert len(told) > TEXT_MAX // 2
    assert printed[0] <= LITERALS_SHOWN + 1


@pytest.mark.parametrize("text", ["TRUE", "a = 1", "a = 1 AND (b = 2 OR c = 3)", f"a = '{'x' * (TEXT_MAX - 10)}'"])
def test_other_filters_are_shown_whole(text: str) -> None:
    assert shown(parse(text)) == to_text(parse(text))


def test_a_long_text_is_cut() -> None:
    assert len(shown(parse(f"a = '{'x' * TEXT_MAX}'"))) == TEXT_MAX + 1
