"""Ingest loses no row: bad ones are named by file and line, and what cannot be read at all is one sentence.

Jobs run in this process: what is asked is what becomes of rows, not whether Spark runs.
"""

import bz2
import gzip
import json
import lzma
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from godwit.cli.pipeline.ingest_command import ingest as ingest_command
from godwit.errors import BadValue, PipelineError
from godwit.filters.events import Attributes
from godwit.languages.xml_documents import xml_event
from godwit.languages.xml_names import NAMESPACES
from godwit.pipeline import ingest as ingesting
from godwit.pipeline import staging, tables
from godwit.pipeline.columns import form_of_values, joined
from godwit.pipeline.formats import csv_rows, splits, xml_rows
from godwit.pipeline.formats.rows import BadRow, Options, Row, in_microseconds, one_number
from godwit.pipeline.ingest import FORMATS, ingest
from godwit.pipeline.ingest import _runs as runs_of
from tests.property.strategies import values
from tests.property.xml_strategies import documents
from tests.seeds import diagonal


class Plain:
    """A session that runs jobs in this process: what is asked is whether rows are lost, not whether Spark runs."""

    defaultParallelism = 2  # noqa: N815 - as Spark calls it

    def __init__(self) -> None:
        self.sparkContext = self
        self._items: list[Any] = []

    def parallelize(self, items: list[Any], slices: int) -> "Plain":
        self._items = list(items)
        return self

    def map(self, function: Callable[[Any], Any]) -> "Plain":
        self._items = [function(item) for item in self._items]
        return self

    def collect(self) -> list[Any]:
        return self._items


JSON_GOOD = st.builds(
    lambda data: json.dumps(data).encode(),
    st.dictionaries(
        st.sampled_from(["a", "b", "to", "day_"]),
        st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=3)
        | st.booleans()
        | st.lists(st.integers(0, 9), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    ),
)
BAD_LINES = [
    b"{",
    b"[1]",
    b'{"a": 1e999}',
    b"\xff\xfe{}",
    b'{"": 1}',
    b"nonsense",
    b'{"a": 99999999999999999999}',
    b"\x00",
]
JSON_BAD = st.sampled_from(BAD_LINES)
BLANK = st.sampled_from([b"", b"  ", b"\r"])


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(JSON_GOOD | JSON_BAD | BLANK, min_size=1, max_size=30), min_size=1, max_size=3), st.randoms())
def test_no_row_is_lost_and_every_planted_fault_is_named(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[bytes]], chance: random.Random
) -> None:
    """However lines are bad, blank, cut into pieces and batched: good ones are written, bad ones named by line."""
    folder = tmp_path_factory.mktemp("law")
    good, bad, wanted = 0, [], []
    for place, lines in enumerate(files):
        (folder / f"{place}.jsonl").write_bytes(b"\n".join(lines))
        for number, line in enumerate(lines, start=1):
            if line in BAD_LINES:
                bad.append((f"{place}.jsonl", number))
            elif line.strip():
                good += 1
                wanted.append((f"{place}.jsonl", number))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "SPLIT_BYTES_MIN", chance.choice([1, 7, 50, 10_000]))
        patch.setattr(splits, "SPLIT_BYTES_MAX", chance.choice([1, 7, 50, 10_000]))
        patch.setattr(staging, "BATCH_ROWS", chance.choice([1, 3, 100]))
        run: Any = Plain()
        out = folder / "out"
        if not good:
            with pytest.raises(PipelineError, match=r"is empty|could be read as jsonl"):
                ingest(run, [str(folder)], Options("jsonl"), out)
            assert not out.exists()
            return
        report = ingest(run, [str(path) for path in sorted(folder.glob("*.jsonl"))], Options("jsonl"), out)
        strict_out = folder / "strict"
        if bad:
            with pytest.raises(PipelineError, match=rf"{bad[0][0]}:{bad[0][1]}: "):
                ingest(
                    run,
                    [str(each) for each in sorted(folder.glob("*.jsonl"))],
                    Options("jsonl", strict=True),
                    strict_out,
                )
            assert not strict_out.exists()
    assert (report.read, report.written, sum(report.quarantined.values())) == (good + len(bad), good, len(bad))
    assert found(out, ("publisher", "sequence")) == wanted
    assert [(Path(file).name, line) for file, line in found(out / tables.QUARANTINE, ("file", "line"))] == bad


def found(folder: Path, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    rows = []
    for path in tables.files(folder):
        table = pq.read_table(path, partitioning=None)
        rows += list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    return sorted(rows)


def test_what_is_lost_on_purpose_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's own check: a writer that forgets a row stops the ingest before anything is committed."""
    source, run = tmp_path / "a.jsonl", Plain()  # type: Path, Any
    source.write_text('{"a": 1}\n{"a": 2}')
    monkeypatch.setattr("godwit.pipeline.ingest.write_unit", lambda unit: staging.write_unit(unit) - 1)
    with pytest.raises(PipelineError, match="2 rows were read and 1 written"):
        ingest(run, [str(source)], Options("jsonl"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", Options("jsonl"), r"x is empty: there is nothing to write"),
        ("\n\n", Options("padres"), "is empty"),
        ("a,b\n", Options("csv"), "is empty"),
        ("a,a\n1,2", Options("csv"), r"x:1: column 2 of the header is 'a': each needs a different name"),
        (
            "hello\nworld",
            Options("jsonl"),
            r"none of the 2 rows of .*x could be read as jsonl; the first, x:1: no JSON",
        ),
        ("<a><b/></a>", Options("xml", row="c"), r"no element <c> in .*x; elements like rows are a, b"),
        ("<a><b/>", Options("xml", row="b", strict=True), r"x:1: broken off: .*not well-formed: no element found"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', Options("xml", row="a"), "declares the entity 'b'"),
        ("x", Options("trace"), "is not a trace"),
        ("x", Options("trace", time="t"), "--time cannot be used: the format trace does not have it"),
        ("x", Options("fixes", names=(("a", "b"),)), "--map cannot be used: the format fixes does not have it"),
        ("x", Options("jsonl", row="b"), "--row cannot be used: the format jsonl does not have it"),
        ("x", Options("jsonl", time_format="ms"), "--time-format cannot be used: it needs --time"),
        ("x", Options("xml"), "XML needs --row"),
        ("x", Options("yaml"), "'yaml' is not a format: allowed are jsonl, csv"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, content: str, options: Options, said: str
) -> None:
    source = tmp_path / "x"
    source.write_text(content)
    run: Any = Plain()
    with pytest.raises(PipelineError, match=said) as caught:
        ingest(run, [str(source)], options, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_header_that_cannot_be_read_is_not_taken_from_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("größe,b\n1,2\n3,4\n".encode("latin-1"))
    run: Any = Plain()
    with pytest.raises(PipelineError, match=r"x.csv:1: the header cannot be read: no UTF-8: byte 3 of the line"):
        ingest(run, [str(tmp_path)], Options("csv"), tmp_path / "out")


def test_blank_lines_before_a_header_lose_no_row(tmp_path: Path) -> None:
    for name, text in {"a.csv": "a,b\n1,2\n", "b.csv": "\n\na,b\n3,4\n"}.items():
        (tmp_path / name).write_text(text)
    run: Any = Plain()
    assert ingest(run, [str(tmp_path)], Options("csv"), tmp_path / "out").written == 2
    assert found(tmp_path / "out", ("sequence", "a")) == [(2, 1), (4, 3)]


def test_a_row_of_csv_with_a_bad_line_within_it_is_bad(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,"x\n\xff\ny"\n2,z\n')
    run: Any = Plain()
    report = ingest(run, [str(tmp_path)], Options("csv"), tmp_path / "out")
    assert (report.read, report.written, report.quarantined) == (3, 1, {"no UTF-8": 1, "no CSV": 1})
    assert found(tmp_path / "out", ("a", "b")) == [(2, "z")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (Options("jsonl"), '{{"a": 1}}\n{{"a": {}}}\n{{"a": 2}}'),
        (Options("csv"), "a\n1\n{}\n2"),
        (Options("padres"), "[a,1]\n[a,{}]\n[a,2]"),
    ],
)
def test_a_number_of_too_many_digits_is_a_bad_row_and_no_more(tmp_path: Path, options: Options, text: str) -> None:
    source, run = tmp_path / "x", Plain()  # type: Path, Any
    source.write_text(text.format("1" * 5_000))
    report = ingest(run, [str(source)], options, tmp_path / "out")
    assert (report.read, report.written) == (3, 2)


@pytest.mark.parametrize(
    ("form", "packed"),
    diagonal(
        [(Options("fixes"), "{} 8 1 9"), (Options("xml", row="r"), "<r>{}</r>"), (Options("csv"), "{}")],
        [gzip.compress, partial(lzma.compress, preset=0)],
    ),
)
def test_a_packed_file_that_is_spoilt_in_the_middle_is_told_of(
    tmp_path: Path, form: tuple[Options, str], packed: Callable[[bytes], bytes]
) -> None:
    options, line = form
    rng = random.Random(1)
    lines = ["a" if options.format == "csv" else "<f>" if options.format == "xml" else "1 2 0 3"]
    count = 60_000 if options.format == "xml" else 20_000
    lines += [line.format(rng.random()) for _ in range(count)]
    data = bytearray(packed("\n".join(lines).encode()))
    middle = len(data) * 3 // 4
    data[middle : middle + 2_000] = bytes(2_000)
    (tmp_path / ("a.gz" if packed is gzip.compress else "a.xz")).write_bytes(data)
    run: Any = Plain()
    report = ingest(run, [str(tmp_path)], options, tmp_path / "out")
    assert report.quarantined["broken off"] == 1
    assert 1_000 < report.written < count


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("<d>" * 200_000 + "</d>" * 200_000, "nested deeper than 64 levels"),
        (f"<t>{'word ' * 10}</t>" * 100, "more than 1,000 characters"),
        ("<t>1</t>" * 10_001, "more than 10000 values"),
    ],
)
def test_a_row_of_xml_is_bounded_and_those_after_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, said: str
) -> None:
    monkeypatch.setattr(xml_rows, "TEXT_MAX", 1_000 if "word" in row else xml_rows.TEXT_MAX)
    source, run = tmp_path / "x", Plain()  # type: Path, Any
    source.write_text(f"<f><r>{row}</r><r><a>1</a></r></f>")
    report = ingest(run, [str(source)], Options("xml", row="r"), tmp_path / "out")
    assert (report.read, report.written, report.quarantined) == (2, 1, {"bad event": 1})
    assert found(tmp_path / "out", ("sequence", "r/a")) == [(2, 1)]
    [(_, reason)] = found(tmp_path / "out" / tables.QUARANTINE, ("line", "reason"))
    assert said in reason


def test_names_may_be_exchanged_and_no_value_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1, "b": 2, "x": 3, "y": 4}\n{"x": 3, "y": 4, "p": 5}')
    options = Options("jsonl", names=(("a", "b"), ("b", "a")), points=(("x", "y", "p"),))
    run: Any = Plain()
    report = ingest(run, [str(tmp_path)], options, tmp_path / "out")
    assert (report.written, report.quarantined) == (1, {"two names": 1})
    assert found(tmp_path / "out", ("a", "b")) == [(2, 1)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (Options("csv"), "t\n12.30\n"),
        (Options("xml", row="r"), "<r><t>12.30</t></r>"),
        (Options("jsonl"), '{"t": 12.30}'),
    ],
)
def test_a_time_in_its_own_format_is_no_number(tmp_path: Path, options: Options, text: str) -> None:
    """Read as one, half past twelve was three past."""
    (tmp_path / "x").write_text(text)
    run: Any = Plain()
    name = "r/t" if options.format == "xml" else "t"
    options = replace(options, time=name, time_format="%H.%M")
    if options.format == "jsonl":
        with pytest.raises(PipelineError, match=r"no time: 12.3 is a number, whose last digits may be lost"):
            ingest(run, [str(tmp_path)], options, tmp_path / "out")
        return
    ingest(run, [str(tmp_path)], options, tmp_path / "out")
    [(at, said)] = found(tmp_path / "out", ("published_at", name))
    if options.format == "xml":  # the number that it reads as, and the text
        said = said[1]["text"]
    assert (at.hour, at.minute, said) == (12, 30, "12.30")


def test_names_made_of_values_do_not_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "COLUMNS_MAX", 5)
    run: Any = Plain()
    for name, first, number in (("a", 0, 5), ("b", 5, 1), ("c", 0, 6)):
        (tmp_path / name).write_text("\n".join(f'{{"k{n}": 1}}' for n in range(first, first + number)))
    ingest(run, [str(tmp_path / "a")], Options("jsonl"), tmp_path / "out")
    with pytest.raises(PipelineError, match="6 different attributes, and a table has at most 5"):
        ingest(run, [str(tmp_path / "b")], Options("jsonl"), tmp_path / "out", "append")
    with pytest.raises(PipelineError, match="the events of c have 6 different"):
        ingest(run, [str(tmp_path / "c")], Options("jsonl"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_two_events_are_never_called_the_same(tmp_path: Path) -> None:
    run: Any = Plain()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text('{"a": 1}')
    ingest(run, [str(tmp_path / "one")], Options("jsonl"), tmp_path / "out")
    with pytest.raises(PipelineError, match=r"the table has events of a file 'a.jsonl' already: rename the file"):
        ingest(run, [str(tmp_path / "two")], Options("jsonl"), tmp_path / "out", "append")
    assert found(tmp_path / "out", ("publisher", "sequence")) == [("a.jsonl", 1)]
    (tmp_path / "two" / "a.jsonl").rename(tmp_path / "two" / "b.jsonl")
    ingest(run, [str(tmp_path / "two")], Options("jsonl"), tmp_path / "out", "append")


def test_traces_of_one_folder_are_runs_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one/x.parquet", "one/y.parquet", "two/x.parquet", "three/trace.parquet")]
    assert runs_of(paths) == [str(tmp_path / name) for name in ("one/x", "one/y", "two/x", "three")]
    assert runs_of(paths[1:]) == ["y", "x", "three"]


def test_a_wrong_path_and_a_file_nobody_may_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere: no such file or folder"):
        splits.sources(["nowhere"])
    (tmp_path / "_hidden").write_text("x")
    with pytest.raises(PipelineError, match="there are no files in"):
        splits.sources([str(tmp_path)])


def test_a_packed_file_that_breaks_off_is_told_of(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = "".join(f'{{"n": {rng.random()}}}\n' for _ in range(20_000)).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(lines)[:100_000])
    run: Any = Plain()
    report = ingest(run, [str(tmp_path / "a.gz")], Options("jsonl"), tmp_path / "out")
    assert report.quarantined == {"broken off": 1}
    assert 1_000 < report.written < 20_000
    with pytest.raises(PipelineError, match="broken off"):
        ingest(run, [str(tmp_path / "a.gz")], Options("jsonl", strict=True), tmp_path / "strict")


@pytest.mark.parametrize("format", ["jsonl", "padres", "fixes"])
def test_of_a_file_of_which_nothing_can_be_unpacked_that_is_what_is_said(tmp_path: Path, format: str) -> None:
    (tmp_path / "a.bz2").write_bytes(bz2.compress(b"1 2 0 1000\n" * 1_000)[:40])
    run: Any = Plain()
    with pytest.raises(PipelineError, match=r"^.*a\.bz2 is broken, from line 1 on: .* \(Compressed file ended before"):
        ingest(run, [str(tmp_path / "a.bz2")], Options(format), tmp_path / "out")


def test_a_file_is_called_as_the_user_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    for name, text in (("a/a.csv", "n\n1\n"), ("a/b.csv.gz", "n\n2\n"), ("c.csv", "n\n3,4\n")):
        Path(name).write_text(text)
    run: Any = Plain()
    with pytest.raises(
        PipelineError, match=r"^a/b\.csv\.gz is damaged, or not compressed as its name says: Not a gzipped"
    ):
        ingest(run, ["a"], Options("csv"), "out")
    with pytest.raises(PipelineError, match=r"^c\.csv:2: cells: 2 cells"):
        ingest(run, ["c.csv"], Options("csv", strict=True), "out")


def test_positions_by_other_names_are_for_ingest(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,longitude,latitude\n2026-11-15,8.5,47.4\n")
    run: Any = Plain()
    with pytest.raises(PipelineError, match=r"no 'lon' and 'lat'; `ingest --table fixes --map OLD=NEW` renames"):
        ingest(run, [str(tmp_path / "a.csv")], Options("csv", time="time"), tmp_path / "zz" / "tables", "new", "fixes")
    assert not (tmp_path / "zz").exists()


# ---------------------------------------------------------------- entities of XML

DTD = '<!DOCTYPE f SYSTEM "f.dtd">'
PLAIN = {NAMESPACES: ""}  # of a document that names none


def by_path(attributes: Attributes) -> Attributes:
    """The attributes without those that are held by name."""
    return {name: values for name, values in attributes.items() if not name.startswith("//")}


def xml_of(tmp_path: Path, text: str, encoding: str = "utf-8") -> tuple[list[Any], list[Any]]:
    """The rows of a file, and what was refused."""
    (tmp_path / "x.xml").write_bytes(text.encode(encoding))
    found = list(xml_rows.rows(splits.Split(str(tmp_path / "x.xml"), "x"), Options("xml", row="r")))
    return [each for each in found if isinstance(each, Row)], [each for each in found if isinstance(each, BadRow)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize(
    "bad", ["<r a='x&foo;y'/>", '<r b="1"\n a="x&foo;y">z</r>', "<r><c d='&foo;'/></r>", "<r>x&foo;y</r>"]
)
def test_an_unknown_entity_makes_a_row_bad_wherever_it_stands(tmp_path: Path, bad: str, encoding: str) -> None:
    head = '<?xml version="1.0" encoding="latin-1"?>' if encoding == "latin-1" else ""
    text = f"{head}{DTD}\n<f>\n<r a='&uuml;&amp;&#65;>'/>\n{bad}\n<r><![CDATA[&foo;]]><!-- a='&foo;' --></r></f>"
    rows, refused = xml_of(tmp_path, text, encoding)
    assert [by_path(row.attributes) for row in rows] == [{"r": "", "r/@a": "ü&A>", **PLAIN}, {"r": "&foo;", **PLAIN}]
    assert [(each.line, each.reason) for each in refused] == [(4, "bad event: the entity &foo; is not known")]


def test_an_unknown_entity_is_found_wherever_the_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in range(1, 40):
        monkeypatch.setattr(xml_rows, "READ_BYTES", size)
        twice = '<r a="1&foo;2" b="3"/><r a="4"/>'
        rows, refused = xml_of(tmp_path, f"{DTD}<f>{twice * 3}</f>")
        assert [by_path(row.attributes) for row in rows] == [{"r": "", "r/@a": 4, **PLAIN}] * 3
        assert len(refused) == 3


@pytest.mark.parametrize("where", ["<r a='{}'/>", "<r>{}</r>"])
@pytest.mark.parametrize(
    ("dtd", "entity", "said"),
    [
        ("", "&foo;", "undefined entity"),
        ("", "&#x110000;", "reference to invalid character number"),
        (DTD, "&#99999999999999;", "reference to invalid character number"),
        ('<!DOCTYPE f [<!ENTITY foo "bar">]>', "&foo;", "declares the entity 'foo'"),
        ('<!DOCTYPE f [<!ENTITY foo SYSTEM "file:///etc/passwd">]>', "&foo;", "declares the entity 'foo'"),
        ('<!DOCTYPE f [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>', "&foo;", "declares the entity 'p'"),
        ('<!DOCTYPE f [<!ENTITY a "aa"><!ENTITY b "&a;&a;&a;&a;">]>', "&b;", "declares the entity 'a'"),
    ],
)
def test_what_no_entity_may_be_ends_the_file_there(
    tmp_path: Path, where: str, dtd: str, entity: str, said: str
) -> None:
    rows, [refused] = xml_of(tmp_path, f"{dtd}<f><r>1</r>{where.format(entity)}</f>")
    assert len(rows) <= 1
    assert said in refused.reason


@pytest.mark.parametrize("long", ["<r a='{}'/>", "<!--{}--><r/>", "<r {}='1'/>"])
def test_a_tag_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: str) -> None:
    monkeypatch.setattr(xml_rows, "TAG_BYTES_MAX", 10_000)
    monkeypatch.setattr(xml_rows, "READ_BYTES", 1_000)
    monkeypatch.setattr(xml_rows, "TEXT_MAX", 5_000)
    rows, refused = xml_of(tmp_path, f"<f><r>1</r>{long.format('x' * 20_000)}</f>")
    assert [by_path(row.attributes) for row in rows] == [{"r": 1, **PLAIN}]
    assert re.search("a tag or comment of 1[0-9],[0-9]+ bytes or more: allowed are 10,000", refused[0].reason)
    rows, refused = xml_of(tmp_path, f"<f><r a='{'x' * 6_000}'/><r>{'x' * 4_000}</r></f>")
    assert len(rows) == 1
    assert refused[0].reason.startswith("bad event: the element has more than")


@settings(max_examples=80)
@given(st.lists(documents(), min_size=1, max_size=3), st.booleans())
def test_a_row_is_the_event_that_a_broker_would_make_of_its_element(roots: list[bytes], is_inherited: bool) -> None:
    declared = b'xmlns:n="urn:n"'
    rows = [root.replace(b" " + declared, b"") if is_inherited else root for root in roots]
    wrapped = [b"<row>%s</row>" % row for row in rows]
    text = b"<f %s>%s</f>" % (declared if is_inherited else b"", b" ".join(wrapped))
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        file.write(text)
        file.flush()
        found = list(xml_rows.rows(splits.Split(file.name, "x"), Options("xml", row="row")))
    assert len(found) == len(rows)
    for row, root in zip(found, roots, strict=True):
        assert isinstance(row, Row)
        assert row.own is not None
        event = xml_event(row.own["payload"])
        assert (event.attributes, event.content_type) == (row.attributes, row.own["content_type"])
        assert row.attributes == xml_event(b"<row>%s</row>" % root).attributes


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ('<f xmlns="urn:a"><r><b xmlns="">1</b></r></f>', '<r xmlns="urn:a"><b xmlns="">1</b></r>'),
        ('<f xmlns="urn:a" xmlns:z="urn:a"><r><z:b/></r></f>', '<r xmlns="urn:a" xmlns:z="urn:a"><z:b></z:b></r>'),
        ('<f xmlns:n="urn:n"><n:r xmlns:n="urn:m"/></f>', '<n:r xmlns:n="urn:m"></n:r>'),
        ("<f><q:r a:b='1'><x:y/></q:r></f>", '<r b="1"><y></y></r>'),  # nothing of this is declared
        ("<f><r a='&#10;&quot;'>&#13;&lt;</r></f>", "<r a='&#10;\"'>&#13;&lt;</r>"),
    ],
)
def test_a_row_is_a_document_that_says_what_it_says_in_its_file(tmp_path: Path, text: str, payload: str) -> None:
    [row], _ = xml_of(tmp_path, text)
    assert row.own["payload"].decode() == payload
    assert xml_event(row.own["payload"]).attributes == row.attributes


@pytest.mark.parametrize(
    ("text", "held"),
    [("8.5", 8.5), ("8.50", 8.5), (" 8.5 ", 8.5), ("85e-1", 8.5), ("+8", 8), ("x", "x")],
)
def test_the_number_of_a_text_however_it_is_written(tmp_path: Path, text: str, held: object) -> None:
    [row], _ = xml_of(tmp_path, f"<f><r>{text}</r></f>")
    assert one_number(row.attributes["r"]) == held
    [row], _ = xml_of(tmp_path, "<f><r><a>1</a><a>2</a></r></f>")
    assert one_number(row.attributes["r/a"]) == (1, 2)


# ---------------------------------------------------------------- rows of many bytes


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (Options("jsonl"), '{{"a": "{}"}}\n'),
        (Options("csv"), "{}\n"),
        (Options("padres"), "[a,'{}']\n"),
        (Options("xml", row="r"), "<r><a>{}</a></r>\n"),
    ],
)
def test_few_rows_of_many_bytes_are_staged_and_written_in_small_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options, text: str
) -> None:
    monkeypatch.setattr(staging, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(ingesting, "FILE_BYTES_MAX", 20_000)
    sizes = []
    flush = staging._Staging.flush

    def noted(self: Any) -> None:
        sizes.append(len(self.pending))
        flush(self)

    monkeypatch.setattr(staging._Staging, "flush", noted)
    before, after = ("a\n", "") if options.format == "csv" else ("<f>", "</f>") if options.format == "xml" else ("", "")
    (tmp_path / "x").write_text(before + "".join(text.format(f"x{n:05}" * 500) for n in range(20)) + after)
    run: Any = Plain()
    report = ingest(run, [str(tmp_path / "x")], options, tmp_path / "out")
    assert report.written == 20
    assert max(sizes) == 4
    assert len(tables.files(tmp_path / "out")) >= 3
    name = "r/a" if options.format == "xml" else "a"
    assert [a[:6] for _, a in found(tmp_path / "out", ("sequence", name))] == [f"x{n:05}" for n in range(20)]


def test_a_row_of_csv_is_bounded_on_however_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "LINE_BYTES_MAX", 1_000)
    lines = '"x\n",' * 400 + '"y"'
    (tmp_path / "x").write_text(f"a\n1\n{lines}\n2\n")
    run: Any = Plain()
    report = ingest(run, [str(tmp_path / "x")], Options("csv"), tmp_path / "out")
    assert found(tmp_path / "out", ("sequence", "a"))[0] == (2, 1)
    assert found(tmp_path / "out", ("sequence", "a"))[-1][1] == 2
    reasons = [reason for _, reason in found(tmp_path / "out" / tables.QUARANTINE, ("line", "reason"))]
    assert "no CSV: a row of 1,002 bytes or more: allowed are 1,000" in reasons
    assert report.read == report.written + sum(report.quarantined.values())


# ---------------------------------------------------------------- small parts


def test_the_help_of_the_command_names_every_format() -> None:
    (option,) = get_args(get_type_hints(ingest_command, include_extras=True)["format"])[1:]
    assert option.help.startswith(f"Format of the files: {', '.join(FORMATS)}, ")


@pytest.mark.parametrize(
    ("held", "format", "wanted"),
    [
        ("1970-01-01T00:00:01Z", "", 1_000_000),
        ("1970-01-01T01:00:00.0000019+01:00", "", 1),
        ("1969-12-31", "", -86_400_000_000),
        (1.5, "", 1_500_000),
        (1_500, "ms", 1_500_000),
        (1_500_000_001, "ns", 1_500_000),
        ("28-Dec-04", "%d-%b-%y", 1_104_192_000_000_000),
        (20041228, "%Y%m%d", 1_104_192_000_000_000),
    ],
)
def test_times_in_many_forms(held: object, format: str, wanted: int) -> None:
    assert in_microseconds(held, format) == wanted


@pytest.mark.parametrize(
    ("held", "format"),
    [("soon", ""), ("12", "s"), (True, ""), (1e300, ""), (2**62, "s"), ("1-1-1", "%Y"), ((1, 2), "")],
)
def test_what_is_no_time(held: object, format: str) -> None:
    with pytest.raises(ValueError, match=r"^no time: "):
        in_microseconds(held, format)


@given(st.lists(values() | st.none() | st.lists(values(), min_size=2, max_size=3).map(tuple), min_size=1))
def test_the_form_of_a_column_holds_what_each_event_holds(helds: list[Any]) -> None:
    if all(held is None for held in helds):
        return
    form, exact = staging.form_of_column(helds)
    for held in helds:
        if held is not None:
            assert joined(form, form_of_values(held), exact=exact) == form


@given(st.binary(max_size=40), st.integers(1, 9))
def test_each_line_is_in_one_piece_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "x"
    path.write_bytes(data)
    whole = list(splits.lines(splits.Split(str(path), "x")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "SPLIT_BYTES_MIN", size)
        patch.setattr(splits, "SPLIT_BYTES_MAX", size)
        pieces = splits.splits([path], 1, by_line=True)
        counts = [splits.counted(each)[0] for each in pieces]
        assert [line for each in splits.numbered(pieces, counts) for line in splits.lines(each)] == whole


# ---------------------------------------------------------------- what a bad row says of itself


@pytest.mark.parametrize(
    ("options", "text", "row", "line"),
    [
        (Options("csv", time="t"), 'a,t\n1,2026-11-15\n3,"not a\ntime"\n', '3,"not a\ntime"', 3),
        (Options("jsonl", time="t"), '{"t": 1}\n{"t":  "not a\\ntime"}\n', '{"t":  "not a\\ntime"}', 2),
        (Options("padres", time="t"), "[t,1]\n[t,'not a time']\n", "[t,'not a time']", 2),
        (Options("xml", row="r", time="r/@t"), '<f><r t="1"/>\n<r  t="not a time"/> </f>', '<r  t="not a time"/>', 2),
        (Options("xml", row="r", time="r/t"), "<f><r><t>1</t></r><r><t>no</t>\n</r ></f>", "<r><t>no</t>\n</r >", 1),
    ],
)
@pytest.mark.parametrize("at_once", [1, 3, 2**20])
def test_the_quarantine_has_the_row_as_it_stands_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options, text: str, row: str, line: int, at_once: int
) -> None:
    monkeypatch.setattr(xml_rows, "READ_BYTES", at_once)
    (tmp_path / "a").write_text(text)
    run: Any = Plain()
    report = ingest(run, [str(tmp_path / "a")], options, tmp_path / "out")
    assert (report.written, report.quarantined) == (1, {"no time": 1})
    [held] = found(tmp_path / "out" / tables.QUARANTINE, ("line", "reason", "text"))
    assert (held[0], held[2]) == (line, row)
    assert "is not in the format of ISO 8601, such as 2026-11-15T18:00:00Z" in held[1]
    assert report.first_bad == f"a:{line}: {held[1]}"


@pytest.mark.parametrize("at_once", [100, 2**20])
def test_of_a_long_row_its_beginning_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(xml_rows, "READ_BYTES", at_once)
    (tmp_path / "a").write_text(f"<f><r><t>1</t></r><r><t>{'no' * 10_000}</t></r></f>")
    run: Any = Plain()
    ingest(run, [str(tmp_path / "a")], Options("xml", row="r", time="r/t"), tmp_path / "out")
    [(reason, text)] = found(tmp_path / "out" / tables.QUARANTINE, ("reason", "text"))
    assert text == ("<r><t>" + "no" * 500)[:1_000]
    assert len(reason) < 200


@pytest.mark.parametrize(
    ("held", "format", "said"),
    [
        ("soon", "%d-%b-%y", "'soon' is not in the format '%d-%b-%y'"),
        ("28-Dec-04 noon", "%d-%b-%y", "'28-Dec-04 noon' is not in the format '%d-%b-%y'"),
        ("soon", "%Q", "'%Q' is not a format of times: "),
        ("soon", "ms", "'soon' is not a number of ms since 1970"),
    ],
)
def test_what_is_no_time_is_said_in_our_words(held: str, format: str, said: str) -> None:
    with pytest.raises(BadValue, match=f"no time: {re.escape(said)}"):
        in_microseconds(held, format)


@pytest.mark.parametrize(
    ("text", "likely"),
    [
        ("<a><v/><x:b>1</x:b><x:b>2</x:b><r><c>1</c></r><r><c>2</c><c>3</c></r></a>", ["r"]),
        ('<a><h/><o><i k="1"/><i k="2"/></o><o><i k="3"/></o></a>', ["i", "o"]),
        ("<a><b/></a>", ["a", "b"]),
        ("<a><b><c/></b><b>", ["b"]),
        ("no XML", []),
    ],
)
def test_elements_like_rows_come_again_and_hold_something(tmp_path: Path, text: str, likely: list[str]) -> None:
    (tmp_path / "a").write_text(text)
    assert xml_rows.elements(str(tmp_path / "a")) == likely
