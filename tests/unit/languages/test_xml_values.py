"""Texts of XML as values."""

import pytest

from godwit.languages.xml_values import canonical, is_plain_number, normalised, number_of, values_of_text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1050", (1050,)),
        ("1050.0", (1050, "1050.0")),
        ("2.5", (2.5,)),
        ("2.50", (2.5, "2.50")),
        ("007", (7, "007")),
        ("-0", (0, "-0")),
        ("+5", (5, "+5")),
        ("1e5", (100_000, "1e5")),
        (".5", (0.5, ".5")),
        ("9007199254740993", (9007199254740992, "9007199254740993")),
        ("Wien", ("Wien",)),
        ("1 2", ("1 2",)),
        ("", ("",)),
        ("١", ("١",)),
    ],
)
def test_a_number_is_held_as_a_number_and_as_a_text_where_it_is_written_otherwise(text: str, values: object) -> None:
    assert values_of_text(text) == values


def test_a_number_beyond_doubles_is_the_largest_double() -> None:
    assert number_of("1" + "0" * 400) == number_of("1" + "0" * 500) == 1.7976931348623157e308


def test_canonical_writings_are_held_as_a_number_alone() -> None:
    for number in (0, -3, 1050, 2.5, 0.001, 123456.789):
        text = canonical(number)
        assert text is not None
        assert values_of_text(text) == (number,)
    assert canonical(1e300) is None


def test_only_the_white_space_of_xml_is_normalised() -> None:
    assert normalised("  a \t\r\n b ") == "a b"
    assert normalised("\u00a0a") == "\u00a0a"


def test_numbers_that_all_read_alike_are_plain() -> None:
    assert all(map(is_plain_number, ("1", "-2.50", ".5", "5.")))
    assert not any(map(is_plain_number, ("+1", "1e5", "0.1234567890123456", "x", "")))
