"""XML documents as events: what is held, and what is refused."""

import gc

import pytest

from godwit.errors import BadEvent
from godwit.filters import Event
from godwit.languages import Subject
from godwit.languages.xml_documents import (
    document_of,
    flattened_document,
    is_xml,
    parsed_document,
    xml_event,
)
from godwit.languages.xml_trees import node_text


def attributes(text: str) -> object:
    """The attributes of paths."""
    found = flattened_document(parsed_document(text.encode()))
    return {name: values for name, values in found.items() if not name.startswith(("//", "xml:"))}


def by_name(text: str) -> object:
    """The attributes of names."""
    found = flattened_document(parsed_document(text.encode()))
    return {name: values for name, values in found.items() if name.startswith("//")}


def test_analogous_paths_are_collected_and_attributes_have_an_at_sign() -> None:
    text = "<U s='f'><A><Zip>1050</Zip><C>Wien</C></A><A><Zip>5473</Zip><C>Wien</C></A></U>"
    assert attributes(text) == {"U": " ", "U/@s": "f", "U/A": " ", "U/A/Zip": (1050, 5473), "U/A/C": "Wien"}


def test_elements_without_a_text_of_their_own_are_present_and_empty() -> None:
    assert attributes("<a><b/><c><d/></c></a>") == {"a": " ", "a/b": "", "a/c": " ", "a/c/d": ""}


def test_what_is_not_held_as_it_stands_says_look_into_the_document() -> None:
    assert attributes("<a> x  y </a>") == {"a": ("x y", "")}
    assert attributes("<a>x</a>") == {"a": "x"}
    assert attributes("<a>x<!-- c -->y</a>") == {"a": " "}
    assert attributes(f"<a>{'x' * 70_000}</a>") == {"a": " "}
    found = attributes("<a>1e5</a>")
    assert isinstance(found, dict)
    assert {100_000, "1e5", ""} <= set(found["a"])


def test_the_number_of_an_element_that_holds_elements_is_held() -> None:
    assert attributes("<a><b>8</b></a>") == {"a": (" ", 8), "a/b": 8}
    assert attributes("<a><b>1</b><b>2</b></a>") == {"a": (" ", 12), "a/b": (1, 2)}  # XPath reads 12
    assert attributes("<a> <b>1</b> <b>2</b> </a>") == {"a": " ", "a/b": (1, 2)}


def test_space_that_is_to_be_preserved_is() -> None:
    assert attributes("<a xml:space='preserve'> x </a>") == {"a/@xml:space": "preserve", "a": (" x ", "")}
    assert attributes("<a xml:space='preserve'>x<b xml:space='default'> y </b><c>z</c></a>") == {
        "a": " ",
        "a/@xml:space": "preserve",
        "a/b": ("y", ""),
        "a/b/@xml:space": "default",
        "a/c": "z",
    }


def test_elements_of_a_name_are_collected_wherever_they_are() -> None:
    text = "<a><b c='1'>x</b><d><b c='2'>y</b><b>x</b></d><e>5</e><e><f>7</f></e></a>"
    assert by_name(text) == {"//a": " ", "//b": ("x", "y"), "//b/@c": (1, 2), "//d": " ", "//e": (" ", 5, 7), "//f": 7}
    assert attributes(text) == {
        "a": " ",
        "a/b": "x",
        "a/b/@c": 1,
        "a/d": " ",
        "a/d/b": ("y", "x"),
        "a/d/b/@c": 2,
        "a/e": (" ", 5, 7),
        "a/e/f": 7,
    }


def test_paths_of_several_elements_are_told() -> None:
    assert flattened_document(parsed_document(b"<a><b/><c><b/></c></a>")).get("xml:repeated") is None
    found = flattened_document(parsed_document(b"<a><b/><b/><c x='1'/><d><c/><c/></d></a>"))
    assert found["xml:repeated"] == ("a/b", "a/d/c")


def test_names_are_told_of_which_no_number_is_held_without_its_text() -> None:
    found = flattened_document(parsed_document(b"<a><b>048</b><b c='1'>x</b><d>050</d><d>50</d></a>"))
    assert found["xml:numerals"] == "b"
    assert "xml:numerals" not in flattened_document(parsed_document(b"<a><b> 48 </b><c><b>048</b></c></a>"))


def test_a_long_text_is_not_held_a_second_time() -> None:
    long = "x" * 257
    assert attributes(f"<a><b>{long}</b><b>y</b></a>") == {"a": " ", "a/b": (long, "y")}
    assert by_name(f"<a><b>{long}</b><b>y</b></a>") == {"//a": " ", "//b": (" ", "y")}


def test_elements_are_named_without_their_namespace_and_the_document_tells_which_there_are() -> None:
    found = flattened_document(parsed_document(b"<a xmlns='u'><p:b xmlns:p='v' p:c='1' d='2'>t</p:b></a>"))
    assert found == {
        "a": " ",
        "a/b/@p:c": 1,
        "a/b/@d": 2,
        "a/b": "t",
        "//a": " ",
        "//b/@p:c": 1,
        "//b/@d": 2,
        "//b": "t",
        "xml:namespace": ("u", "v"),
        "xml:prefix": "p",
    }


@pytest.mark.parametrize("declared", ["xmlns='u' xmlns:z='u'", "xmlns:z='u' xmlns='u'"])
def test_an_attribute_keeps_its_prefix_where_the_default_namespace_is_the_same(declared: str) -> None:
    assert attributes(f"<a {declared} z:q='1'/>") == {"a": "", "a/@z:q": 1}


def test_the_event_of_a_document_carries_it_and_keeps_the_attributes_of_the_document() -> None:
    event = xml_event(b"<a>1</a>", {"a": 2, "topic": "x"}, publisher="p")
    assert event.attributes == {"a": 1, "//a": 1, "topic": "x", "xml:namespace": ""}
    assert (event.payload, event.content_type, event.publisher) == (b"<a>1</a>", "application/xml", "p")


def test_a_document_is_parsed_once_for_all_tests() -> None:
    subject = Subject(xml_event(b"<a/>"))
    assert document_of(subject) is document_of(subject)


@pytest.mark.parametrize(
    "event",
    [
        Event({}),
        Event({}, payload=b"<a/>", content_type="text/plain"),
        Event({}, payload=b"<a", content_type="text/xml"),
    ],
)
def test_what_is_no_document_has_none(event: Event) -> None:
    assert document_of(Subject(event)) is None


def test_content_types_of_xml() -> None:
    assert all(map(is_xml, ("application/xml", "text/XML; charset=utf-8", "application/cap+xml")))
    assert not any(map(is_xml, (None, "application/json", "application/xml-dtd")))


def test_texts_of_descendants_are_separated_and_normalised() -> None:
    root = parsed_document(b"<a> <f>Mary</f><l>Bob</l>\n x<!-- no --><?pi no?></a>")
    assert node_text(root) == "Mary Bob x"
    assert node_text(parsed_document(b"<a xml:space='preserve'> <f>M</f><l>B</l></a>")) == " MB"


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(10))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"<a><b></a>", "line 1, column 11: not well-formed XML: Opening and ending tag mismatch"),
        (b"<a>\n <b x=></b></a>", "line 2, column 7: not well-formed XML"),
        (b"", "line 1, column 1: not well-formed XML: Document is empty"),
        (b'{"a": 1}', "line 1, column 1: not well-formed XML"),
        (b"<a/><b/>", "line 1, column 5: not well-formed XML"),
        (b"<a>&uuml;</a>", "line 1, column 10: not well-formed XML: Entity 'uuml' not defined"),
        (b"<!DOCTYPE a SYSTEM 'http://localhost/a.dtd'><a>&uuml;</a>", "the entity &uuml; is not known"),
        (f"<!DOCTYPE a [{LAUGHS}]>\n<a>&l9;</a>".encode(), "line 1, column 14: the document declares entities"),
        (f"<!DOCTYPE a [{LAUGHS}]>\n<a>&l9;</a>".encode("utf-16"), "the document declares entities"),
        (
            f"<?xml version='1.0' encoding='cp037'?><!DOCTYPE a [{LAUGHS}]><a>x</a>".encode("cp037"),
            "line 1, column 1: ",
        ),
        (b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", "the document declares entities"),
        (b"<a>" * 300_000, "Excessive depth in document"),
        (b"<a>" * 100 + b"</a>" * 100, "elements nested deeper than 64 levels"),
        (b"<a>" + b"x" * 1_048_576 + b"</a>", "an XML document of 1,048,583 bytes: at most 1,048,576 are allowed"),
        (b"<a " + b" ".join(b"a%d=''" % n for n in range(90_000)) + b"/>", "an element of 1000 attributes or more"),
        (b"<a>" + b"".join(b"<b%d/>" % n for n in range(500)) + b"</a>", "more than 996 different paths and names"),
        (b"<a>" + b"<b/>" * 90_000 + b"</a>", "a document of more than 10,000 elements"),
        (b"<a>" + b"<b c='x'>y</b>" * 6_000 + b"</a>", "more than 10000 values"),
        (b"<" + b"n" * 300 + b"/>", "a path of 300 characters"),
        (b"<" + b"n" * 255 + b"/>", "a path of 257 characters"),
    ],
)
def test_a_bad_document_is_refused_with_the_place(data: bytes, fault: str) -> None:
    with pytest.raises(BadEvent) as refused:
        xml_event(data)
    assert fault in str(refused.value)


def test_a_document_type_without_entities_is_read() -> None:
    assert xml_event(b"<!DOCTYPE a SYSTEM 'a.dtd'><a>1</a>").attributes["a"] == 1


def test_a_read_document_leaves_nothing_to_the_garbage_collector() -> None:
    data = b"<a>" + b"<b/>" * 2_000 + b"</a>"  # too long for its plan to be kept
    flattened_document(parsed_document(data))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            flattened_document(parsed_document(data))
        assert gc.collect() == 0
    finally:
        gc.enable()
