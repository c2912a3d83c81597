"""Texts that are laid out over several lines: the filter lets them through when their words are asked for, and a query
for other words is not let through because of them."""

import pytest

from godwit.languages import parse_query
from godwit.languages.xml_documents import xml_subject

LAID_OUT = b"<entry><value>TXC201</value><value>AAA\n\t\tBBB CCC</value></entry>"
PRESERVED = b"<entry xml:space='preserve'><value>AAA\n\t\tBBB CCC</value></entry>"


@pytest.mark.parametrize("document", [LAID_OUT, PRESERVED])
@pytest.mark.parametrize("language", ["xql", "xpath"])
@pytest.mark.parametrize(
    "part", ["AAA", "BBB CCC", "AAA BBB", "AAA\n\t\tBBB", "A\n", "B C", " CCC", "TXC201 AAA", "CCC "]
)
def test_what_a_query_wants_passes_its_filter(document: bytes, language: str, part: str) -> None:
    text = f"//value[. $contains$ '{part}']" if language == "xql" else f"//value[contains(., '{part}')]"
    query, subject = parse_query(text, language), xml_subject(document)
    assert query.routable.matches(subject.event) >= query.wants(subject)


def test_other_words_are_not_let_through_because_a_text_is_laid_out() -> None:
    subject = xml_subject(LAID_OUT)
    assert not parse_query("//value[. $contains$ 'DDD EEE']", "xql").routable.matches(subject.event)
    assert parse_query("//value[. $contains$ 'AAA BBB']", "xql").routable.matches(subject.event)
