"""What `ListWriter` writes is what pyarrow writes, whoever reads it; and the checkers see pages that are wrong."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.pipeline import parquet_lists
from godwit.pipeline.parquet_lists import ListWriter
from godwit.pipeline.thrift import I32, ThriftError, read, varint, written
from tests.seeds import slow

TIME = pa.timestamp("us", tz="UTC")
FLAT = {"publisher": pa.string(), "sequence": pa.int64(), "published_at": TIME}
LISTS = pa.list_(pa.field("element", pa.dictionary(pa.int32(), pa.string())))
STATISTICS = ["publisher", "sequence", "published_at", "day"]
DICTIONARY_LIMIT = (1 << 31) - 1


class Group(NamedTuple):
    """A row group: columns, lists of numbers, and where these are cut into parts."""

    columns: dict[str, list[Any]]
    lists: list[list[int]]
    cut: int
    texts: list[str]


def schema_of(group: Group) -> Any:
    flat = {name: type for name, type in [*FLAT.items(), ("day", pa.date32())] if name in group.columns}
    day = flat.pop("day", None)
    fields = [*flat.items(), ("subscriptions", LISTS)]
    return pa.schema(fields if day is None else [*fields, ("day", day)])


def offsets_of(lists: list[list[int]]) -> Any:
    return np.cumsum([0, *map(len, lists)], dtype=np.int32)


def write_ours(path: Path, groups: list[Group]) -> None:
    schema = schema_of(groups[0])
    writer = ListWriter(path, schema, "subscriptions", ["publisher"], STATISTICS)
    for group in groups:
        columns = {name: pa.array(held, schema.field(name).type) for name, held in group.columns.items()}
        halves = [part for part in (group.lists[: group.cut], group.lists[group.cut :]) if part]
        parts = [(offsets_of(part), np.array([n for each in part for n in each], dtype=np.int32)) for part in halves]
        writer.write(columns, parts, pa.array(group.texts, pa.string()))
    writer.close()


def write_pyarrow(path: Path, groups: list[Group]) -> None:
    schema = schema_of(groups[0])
    with pq.ParquetWriter(
        path, schema, use_dictionary=["publisher", "subscriptions.list.element"], write_statistics=STATISTICS,
        compression="zstd", compression_level=1, dictionary_pagesize_limit=DICTIONARY_LIMIT,
    ) as writer:  # fmt: skip
        for group in groups:
            numbers = pa.array([n for each in group.lists for n in each], pa.int32())
            coded = pa.DictionaryArray.from_arrays(numbers, pa.array(group.texts, pa.string()))
            lists = pa.ListArray.from_arrays(pa.array(offsets_of(group.lists)), coded, type=LISTS)
            columns = {name: pa.array(held, schema.field(name).type) for name, held in group.columns.items()}
            table = pa.table({**columns, "subscriptions": lists}).select(schema.names).cast(schema)
            writer.write_table(table, row_group_size=len(group.lists))


def assert_same(ours: Path, theirs: Path) -> None:
    """Both files hold the same, and say the same of it."""
    mine, other = pq.ParquetFile(ours), pq.ParquetFile(theirs)
    assert mine.schema_arrow == other.schema_arrow
    assert mine.schema == other.schema
    assert mine.metadata.num_rows == other.metadata.num_rows
    assert mine.num_row_groups == other.num_row_groups
    for number in range(mine.num_row_groups):
        one, two = mine.metadata.row_group(number), other.metadata.row_group(number)
        assert one.num_rows == two.num_rows
        assert mine.read_row_group(number).to_pylist() == other.read_row_group(number).to_pylist()
        for place in range(one.num_columns):
            column, same = one.column(place).to_dict(), two.column(place).to_dict()
            for key in ("path_in_schema", "physical_type", "num_values", "statistics", "compression", "encodings"):
                assert column[key] == same[key], (column[key], same[key])


class Page(NamedTuple):
    at: int
    items: int  # 0 for a dictionary
    size: int  # with its header, when unpacked
    end: int


def pages_of(data: bytes, column: Any) -> Iterator[Page]:
    at = begin_of(column)
    while at < begin_of(column) + column.total_compressed_size:
        header = read(data[at:])
        assert [header[field][0] for field in (1, 2, 3)] == [I32] * 3, "no page begins here"
        head, items = len(written(header)), header[5][1][1][1] if header[1][1] == parquet_lists.DATA_PAGE else 0
        yield Page(at, items, head + header[2][1], at + head + header[3][1])
        at += head + header[3][1]


def begin_of(column: Any) -> int:
    return int(min(each for each in (column.dictionary_page_offset, column.data_page_offset) if each is not None))


def assert_sound(path: Path) -> None:
    """Columns lie one after the other and fill the file; their pages fill them, and have as many items as they say."""
    data, meta = path.read_bytes(), pq.read_metadata(path)
    at = 4
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        columns = [group.column(place) for place in range(meta.num_columns)]
        for column in columns:
            assert begin_of(column) == at
            pages = list(pages_of(data, column))
            at += column.total_compressed_size
            assert pages[-1].end == at
            assert next(page.at for page in pages if page.items) == column.data_page_offset
            assert sum(page.items for page in pages) == column.num_values
            assert sum(page.size for page in pages) == column.total_uncompressed_size
        assert group.total_byte_size == sum(each.total_uncompressed_size for each in columns)
    assert at + meta.serialized_size + 8 == len(data)


def check(folder: Path, groups: list[Group]) -> None:
    ours, theirs = folder / "ours", folder / "theirs"
    write_ours(ours, groups)
    write_pyarrow(theirs, groups)
    assert_sound(ours)
    assert_same(ours, theirs)


# ---------------------------------------------------------------- laws

odd_texts = st.one_of(
    st.text(max_size=4), st.sampled_from(["", "\0", "\0a", "é", "e\u0301", "😀", "\U0010ffff", "\ufeff"])
)
VALUES = {
    "publisher": odd_texts,
    "sequence": st.integers(-(1 << 63), (1 << 63) - 1),
    "published_at": st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
    "day": st.dates(date(1, 1, 1), date(9999, 12, 31)),
}


@st.composite
def row_groups(draw: st.DrawFn) -> list[Group]:
    names = [*FLAT, "day"] if draw(st.booleans()) else [*FLAT]
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(1, 9))
        texts = draw(st.lists(odd_texts, min_size=1, max_size=12, unique=True))
        numbers = st.integers(0, len(texts) - 1)
        lists = draw(st.lists(st.lists(numbers, min_size=1, max_size=30), min_size=rows, max_size=rows))
        columns = {
            name: draw(st.lists(st.none() | VALUES[name], min_size=rows, max_size=rows)) for name in names
        }  # fmt: skip
        found.append(Group(columns, lists, draw(st.integers(0, rows)), texts))
    return found


@given(row_groups(), st.sampled_from([1, 2, 7, 8, 9, 1 << 18]))
def test_what_is_read_is_what_pyarrow_would_have_written(groups: list[Group], most: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_lists, "PAGE_ITEMS", most)
        check(Path(folder), groups)


def plain(lists: list[list[int]], texts: list[str], cut: int = 0) -> Group:
    rows = len(lists)
    columns: dict[str, list[Any]] = {
        "publisher": [None if n % 7 == 3 else f"p{n % 3}" for n in range(rows)],
        "sequence": [None if n % 7 == 4 else n for n in range(rows)],
        "published_at": [None if n % 7 == 5 else datetime(2026, 11, 16, n % 24, tzinfo=UTC) for n in range(rows)],
    }
    return Group(columns, lists, cut, texts)


def of_width(count: int) -> Group:
    """Lists over so many texts, with the last of them in it."""
    numbers = np.random.default_rng(count).integers(0, count, 300).tolist()
    return plain([[count - 1], [0, count - 1, 0], numbers, [0]], [f"s{n}" for n in range(count)])


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 65_535, 65_536, 65_537, slow((1 << 20) + 1)])
def test_dictionaries_of_any_size(count: int, tmp_path: Path) -> None:
    check(tmp_path, [of_width(count)])


def test_one_list_may_be_longer_than_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_lists, "PAGE_ITEMS", 10_000)
    items = 3 * parquet_lists.PAGE_ITEMS + 5
    group = plain([[0], [n % 300 for n in range(items)], [1, 2]], [f"s{n}" for n in range(300)])
    check(tmp_path, [group])
    assert page_items(tmp_path / "ours") == [1, items, 2]


def test_pages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_lists, "PAGE_ITEMS", 100)
    check(tmp_path, [plain([[n % 9] * (n % 60 + 1) for n in range(400)], list("abcdefghi"), 150)])
    assert max(page_items(tmp_path / "ours")) <= 100
    assert len(page_items(tmp_path / "ours")) > 100


def page_items(path: Path) -> list[int]:
    """How many items each page of lists has."""
    column = pq.read_metadata(path).row_group(0).column(len(FLAT))
    return [page.items for page in pages_of(path.read_bytes(), column) if page.items]


def varied() -> list[Group]:
    texts = ["", "\0", "é", "😀", "a\0b", *(f"s{n}" for n in range(70_000))]
    long = [[n * 37 % len(texts) for n in range(first, first + first % 900 + 1)] for first in range(500)]
    return [plain(long, texts, 100), plain([[0]], ["only"]), plain([[n % 5, 4] for n in range(3_000)], texts[:5])]


def test_duckdb_reads_what_pyarrow_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr(parquet_lists, "PAGE_ITEMS", 5_000)
    check(tmp_path, varied())
    query = "select publisher, sequence, epoch_us(published_at), subscriptions from read_parquet(?)"
    ours = duckdb.execute(query, [str(tmp_path / "ours")]).fetchall()
    expected = [
        (row["publisher"], row["sequence"], at and round(at.timestamp()) * 1_000_000, row["subscriptions"])
        for row in pq.read_table(tmp_path / "theirs").to_pylist()
        for at in [row["published_at"]]
    ]
    assert ours == expected


def test_row_groups_are_skipped_by_their_statistics(tmp_path: Path) -> None:
    groups = [of_width(3)._replace(columns={**of_width(3).columns, "sequence": [first] * 4}) for first in (1, 9, 5)]
    write_ours(tmp_path / "ours", groups)
    [group] = pq.ParquetFile(tmp_path / "ours").metadata.to_dict()["row_groups"][1:2]
    assert group["columns"][1]["statistics"]["min"] == group["columns"][1]["statistics"]["max"] == 9
    assert pq.read_table(tmp_path / "ours", filters=[("sequence", "=", 9)]).num_rows == 4


def test_a_file_that_was_not_closed_is_none(tmp_path: Path) -> None:
    writer = ListWriter(tmp_path / "ours", schema_of(of_width(1)), "subscriptions")
    writer.abandon()
    with pytest.raises(pa.ArrowInvalid):
        pq.read_metadata(tmp_path / "ours")


# ---------------------------------------------------------------- planted faults


def one_less(page: Any) -> Any:
    """A page that says of one item less that it is not null."""
    return lambda offsets, numbers, texts, no_null: page(offsets, numbers, texts, no_null).replace(
        varint(len(numbers) << 1) + bytes([no_null]),
        varint(len(numbers) - 1 << 1) + bytes([no_null]),
        1,
    )


FAULTS = {
    "a run that is one short": one_less,
    "lists that begin one item late": lambda page: (
        lambda offsets, *rest: page(np.concatenate(([0], offsets[1:-1] + 1, offsets[-1:])), *rest)
    ),
    "numbers one too high": lambda page: (
        lambda offsets, numbers, texts, no_null: page(offsets, (numbers + 1) % texts, texts, no_null)
    ),
    "a level too low": lambda page: lambda offsets, numbers, texts, no_null: page(offsets, numbers, texts, no_null - 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_is_wrong_is_seen(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = plain([[0, 1, 2], [2, 2], [1] * 40, [0, 2]], ["a", "b", "c"])
    check(tmp_path, [group])
    monkeypatch.setattr(parquet_lists, "_page", FAULTS[fault](parquet_lists._page))
    (tmp_path / "ours").unlink()
    with pytest.raises((AssertionError, OSError, pa.ArrowException)):
        check(tmp_path, [group])


@pytest.mark.parametrize("field", ["CHUNK_ITEMS", "CHUNK_BYTES", "CHUNK_PACKED", "CHUNK_DATA_AT"])
def test_metadata_that_are_one_off_are_seen(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, original = getattr(parquet_lists, field), ListWriter._put_lists

    def wrong(*arguments: Any) -> Any:
        found = original(*arguments)
        kind, value = found[place]
        return found | {place: (kind, value + 1)}

    monkeypatch.setattr(ListWriter, "_put_lists", wrong)
    with pytest.raises((AssertionError, OSError, pa.ArrowException, ThriftError)):
        check(tmp_path, [of_width(3)])


# ---------------------------------------------------------------- Thrift

integers = st.tuples(st.sampled_from([4, 5, 6]), st.integers(-(1 << 63), (1 << 63) - 1))
leaves = st.one_of(
    integers,
    st.tuples(st.sampled_from([1, 2]), st.none()),
    st.tuples(st.just(3), st.binary(min_size=1, max_size=1)),
    st.tuples(st.just(7), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(8), st.binary(max_size=300)),
    st.tuples(st.just(9), st.tuples(st.just(5), st.lists(st.integers(-99, 99), max_size=20))),
)
structs = st.recursive(
    st.dictionaries(st.integers(1, 40), leaves, max_size=6),
    lambda inner: st.dictionaries(
        st.integers(1, 40),
        st.tuples(st.just(12), inner) | st.tuples(st.just(9), st.tuples(st.just(12), st.lists(inner, max_size=3))),
        max_size=4,
    ),
    max_leaves=6,
)


@given(structs, st.data())
def test_structures_are_read_as_they_were_written(struct: dict[int, Any], data: st.DataObject) -> None:
    whole = written(struct)
    assert read(whole) == struct
    with pytest.raises(ThriftError):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_metadata_of_pyarrow_stay_the_same_bytes(tmp_path: Path) -> None:
    write_pyarrow(tmp_path / "theirs", varied())
    data = (tmp_path / "theirs").read_bytes()
    meta = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert written(read(meta)) == meta


def test_what_is_no_structure_is_refused() -> None:
    with pytest.raises(ThriftError, match="nested more than 32 deep"):
        read(b"\x1c" * 100)
    with pytest.raises(ThriftError, match="wire type 11 is not known here"):
        read(b"\x1b\x00\x00")
