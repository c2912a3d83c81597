"""An index in a file is the index: it matches the same, changes the same, and any other file is refused."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from godwit.errors import GodwitError, IndexFileError
from godwit.filters.events import event
from godwit.filters.filters import DEPTH_MAX, Filter, all_of, any_of, missing, some
from godwit.filters.language import parse
from godwit.filters.regions import circle
from godwit.filters.sets import at_least, at_most, between, ends_with, holds_text, like, one_of
from godwit.filters.values import Point
from godwit.matching import batch_kernels, index_file, kernels, masks
from godwit.matching.filter_compiler import IndexedAttribute
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.kernels import DEAD
from godwit.matching.labels import Constants, Slot
from godwit.matching.matcher import SubscriptionId
from godwit.matching.naive_matcher import NaiveMatcher
from tests.unit.filters.random_filters import NEW_YEAR, assert_same, columns_of, random_attributes, random_filter

ROOT = Path(__file__).resolve().parents[3]


def reloaded(index: IndexMatcher, tmp_path: Path) -> IndexMatcher:
    index.save(tmp_path / "index")
    return IndexMatcher.load(tmp_path / "index", verify=True)


def random_pair(seed: int, count: int) -> tuple[IndexMatcher, NaiveMatcher, Random]:
    """An index and the naive matcher with some history: removed, replaced, matched."""
    draw, index, naive = Random(seed), IndexMatcher(), NaiveMatcher()
    subscriptions = [(n, random_filter(draw)) for n in range(count)]
    rows = [random_attributes(draw) for _ in range(10)]
    for matcher in (index, naive):
        matcher.add_many(subscriptions)
        matcher.match(event(rows[0]))
        for n in range(0, count, 7):
            matcher.remove(n)
        for n in range(1, count, 7):
            matcher.replace(n, subscriptions[n - 1][1])
    return index, naive, draw


# ---------------------------------------------------------------- the same as before


@pytest.mark.parametrize("count", [0, 1, 30, 400])
def test_a_loaded_index_matches_what_it_matched_before(count: int, tmp_path: Path) -> None:
    index, naive, draw = random_pair(1, count)
    loaded = reloaded(index, tmp_path)
    rows = [random_attributes(draw) for _ in range(40)]
    for row in rows:
        assert loaded.match(event(row)) == index.match(event(row))  # also in the same order
    assert_same(loaded, naive, rows)


@pytest.mark.parametrize("times", [1, 3])
def test_a_loaded_index_can_be_changed_like_any_other(times: int, tmp_path: Path) -> None:
    index, naive, draw = random_pair(2, 300)
    for round in range(times):
        index = reloaded(index, tmp_path)
        for n in range(100):
            for matcher in (index, naive):
                (matcher.add if n % 2 else lambda *_: None)(("new", round, n), random_filter(Random(n)))
        for n in range(2 + 7 * round, 300, 21):
            replacement = random_filter(draw)
            index.replace(n, replacement)
            naive.replace(n, replacement)
        for n in range(3 + 7 * round, 300, 21):
            index.remove(n)
            naive.remove(n)
        assert_same(index, naive, [random_attributes(draw) for _ in range(20)])


def test_a_loaded_index_forgets_what_is_dead(tmp_path: Path) -> None:
    index, naive, draw = random_pair(3, 1_600)
    loaded = reloaded(index, tmp_path)
    for n in range(1_600):
        if n in naive and n % 10:
            loaded.remove(n)
            naive.remove(n)
    assert_same(loaded, naive, [random_attributes(draw) for _ in range(20)])
    loaded.prepare()
    assert not (loaded._layout.stamps[loaded._layout.rows[:, 2]] == DEAD).any()
    assert type(loaded._compiler.residuals) is dict
    assert_same(reloaded(loaded, tmp_path), naive, [random_attributes(draw) for _ in range(20)])


def test_changes_that_wait_are_saved_too(tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add(1, some("x", at_most(3)))
    index.add(2, some("x", at_most(3)))
    index.remove(2)
    loaded = reloaded(index, tmp_path)
    assert loaded.match(event({"x": 1})) == [1]
    assert (len(loaded), 1 in loaded, 2 in loaded) == (1, True, False)


def test_formulas_are_shared_with_those_of_the_file(tmp_path: Path) -> None:
    formula = any_of(*(all_of(some("x", at_least(n)), some("where", circle(n, 0, 9_000))) for n in range(12)))
    index = IndexMatcher()
    index.add(1, all_of(formula, some("y", at_most(1))))
    loaded = reloaded(index, tmp_path)
    before = loaded._layout.node_count
    loaded.add(2, all_of(formula, some("y", at_most(2))))
    assert loaded.match(event({"x": 20, "y": 2, "where": Point(3, 0)})) == [2]
    assert loaded._layout.node_count == before > 1


def test_both_kinds_of_batch(tmp_path: Path) -> None:
    draw, index, naive = Random(4), IndexMatcher(), NaiveMatcher()
    shared = [some("price", at_most(n)) for n in range(20)] + [some("symbol", like("a%b")), missing("place")]
    filters: list[Filter] = [all_of(*draw.sample(shared, 2)) for _ in range(400)]
    for matcher in (index, naive):
        matcher.add_many(enumerate(filters))
    rows = [random_attributes(draw) for _ in range(masks.EVENTS + 9)]
    loaded = reloaded(index, tmp_path)
    found = loaded.match_batch(columns_of(rows))
    assert [set(ids) for ids in found] == [set(naive.match(event(row))) for row in rows]
    assert loaded._turns_round(len(rows))


def test_expiry_goes_on_where_it_was(tmp_path: Path) -> None:
    index, naive = IndexMatcher(), NaiveMatcher()
    ends: list[Any] = [5, 1.5, 2**60 + 1, 2, 2, None, float("inf")]
    for matcher in (index, naive):
        for number, expires in enumerate(ends):
            matcher.add(number, some("x", at_most(9)), expires)
        matcher.replace(0, some("x", at_most(9)), expires=3)
        matcher.add("text", some("x", at_most(9)), expires=2)
        matcher.remove(4)
    loaded = reloaded(index, tmp_path)
    for now in (1, 2, 2**60, 2**60 + 1):
        assert loaded.expire(now) == naive.expire(now)
        assert_same(loaded, naive, [{"x": 1}])
    loaded.add("later", some("x", at_most(9)), expires=2**61)
    assert loaded.expire(2**61) == ["later"]


# ---------------------------------------------------------------- everything an index can hold

IDS: dict[str, list[SubscriptionId]] = {
    "ints": [0, 5, -7, 2**63 - 1, -(2**63)],
    "long ints": [1, 2**63, 2**64 - 1, 2**64, -(10**40), 1 << 60_000],
    "texts": ["", "a", "é😀", "5"],
    "tuples": [(), (1,), (1, 2), ("a", 1), ("a", ("b", 2**70)), ((), ())],
    "all": [5, "5", (5,), ("5",), 2**70],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    index = IndexMatcher()
    for id in [*IDS[kind], "gone"] if kind != "ints" else IDS[kind]:
        index.add(id, some("x", at_most(3)))
    if "gone" in index:
        index.remove("gone")
    loaded = reloaded(index, tmp_path)
    assert loaded.match(event({"x": 1})) == IDS[kind]
    assert [type(id) for id in loaded.match(event({"x": 1}))] == [type(id) for id in IDS[kind]]
    assert loaded.match_batch({"x": [1]})[0] == IDS[kind]
    for id in IDS[kind]:
        assert id in loaded
        loaded.remove(id)
    assert (len(loaded), loaded.match(event({"x": 1}))) == (0, [])


@pytest.mark.parametrize("id", [1.5, None, True, b"x", frozenset({1}), (1, 2.5), "\ud800", Point(1, 2), NEW_YEAR])
def test_an_id_that_no_file_can_hold_is_an_error_and_leaves_no_file(id: SubscriptionId, tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add(id, some("x", at_most(3)))
    with pytest.raises(IndexFileError, match="cannot be written to a file"):
        index.save(tmp_path / "index")
    assert list(tmp_path.iterdir()) == []
    assert index.match(event({"x": 1})) == [id]


def test_a_tuple_nested_without_end_is_an_error(tmp_path: Path) -> None:
    id: SubscriptionId = ()
    for _ in range(5_000):
        id = (id,)
    index = IndexMatcher()
    index.add(id, some("x", at_most(3)))
    with pytest.raises(IndexFileError, match="recursion"):
        index.save(tmp_path / "index")


@pytest.mark.parametrize("name", ["", "n" * 257])
def test_a_name_that_no_filter_could_be_read_with_is_an_error(name: str, tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add(1, some(name, like("a%b")))
    with pytest.raises(IndexFileError, match="attribute name"):
        index.save(tmp_path / "index")


def test_constants_of_every_kind_keep_their_order(tmp_path: Path) -> None:
    values: list[Any] = [
        *(0, -0.5, 2**53, 2**53 + 1, float(2**53 + 2), 2**64 - 1, -(2**63), 1e300, -1e300, 5e-324, True, False),
        *("", "a", "é", "\U0010ffff", "\ud7ff", "\0", NEW_YEAR, NEW_YEAR.min.replace(tzinfo=NEW_YEAR.tzinfo)),
        *(Point(0, 0), Point(0.5, -90), Point(180, 0), Point(-180, 0)),
    ]
    index, naive = IndexMatcher(), NaiveMatcher()
    for matcher in (index, naive):
        matcher.add_many((("is", n), some("x", one_of([value]))) for n, value in enumerate(values))
        ordered = [(n, value) for n, value in enumerate(values) if type(value) not in (bool, Point)]
        matcher.add_many((("to", n), some("x", at_most(value))) for n, value in ordered)
        matcher.add_many([("list", some("x", one_of(values))), ("end", some("x", ends_with("é")))])
        matcher.match(event({"x": values}))  # kept as a sample
    loaded = reloaded(index, tmp_path)
    rows = [*({"x": value} for value in values), {"x": values}, {"x": [2**53 + 3, "aé"]}, {"y": 1}]
    assert_same(loaded, naive, rows)
    assert loaded._sample[0] == event({"x": values}).attributes
    for matcher in (loaded, naive):
        matcher.add_many((("between", n), some("x", between(n, n + 2**62))) for n in range(40))
    assert_same(loaded, naive, rows)


def test_large_filters_and_many_patterns(tmp_path: Path) -> None:
    deep: Filter = some("x", like("a%b%c"))
    for level in range(1, DEPTH_MAX):
        deep = (any_of if level % 2 else all_of)(some("y", one_of([level])), deep, some("z", at_most(level)))
    index, naive = IndexMatcher(), NaiveMatcher()
    for matcher in (index, naive):
        matcher.add("deep", deep)
        matcher.add("long", any_of(*(all_of(some("x", at_least(n)), some("y", at_most(n))) for n in range(3_000))))
        matcher.add_many((n, some("x", holds_text(f"{n}"))) for n in range(200))
    rows: list[dict[str, Any]] = [
        {"x": "axbxc", "y": [*range(100)], "z": 0},
        {"x": 5, "y": 5},
        {"x": "17 199", "y": 99},
        {"z": 50},
    ]
    loaded = reloaded(index, tmp_path)
    assert_same(loaded, naive, rows)
    for matcher in (loaded, naive):
        matcher.add("deep again", deep)
    assert_same(loaded, naive, rows)
    assert (tmp_path / "index").stat().st_size < 3_000_000


def test_every_array_of_the_layout_is_in_the_file_or_scratch(tmp_path: Path) -> None:
    index, _, _ = random_pair(5, 300)
    loaded = reloaded(index, tmp_path)
    before, after = vars(index._layout), vars(loaded._layout)
    assert before.keys() == after.keys()
    scratch = _scratch_names()
    assert {"x", "known", "out"} <= scratch < before.keys()
    for name in before.keys() - scratch - {"take_sample"}:
        np.testing.assert_equal(after[name], before[name], err_msg=name)
        if isinstance(before[name], np.ndarray):
            assert (after[name].dtype, type(after[name])) == (before[name].dtype, np.ndarray)
            assert after[name].flags.c_contiguous
            assert after[name].flags.aligned
            assert after[name].flags.writeable


def test_nothing_was_added_to_the_index_that_is_not_saved() -> None:
    """Whoever adds an attribute here sees to it that `storage` saves it, or that `load` can do without."""
    index = IndexMatcher()
    known = {
        index: "numbers ids given compiler encoder layout renewal numbering sample stamp changed expires due "
        "due_number tallies tallies_weights rest rest_weights newcomers free placeable lacks_room made_at",
        index._compiler: "columns waiting slots nodes residuals tests tests_before rows rows_before node_rows "
        "nodes_before members free_slots",
        index._encoder: "columns memo substrings numbers calm dictionaries",
    }
    for each, names in known.items():
        assert {name.removeprefix("_") for name in vars(each)} == set(names.split()), type(each).__name__
    assert set(Slot.__slots__) == {"constants", "number", "of_pattern", "orders_texts", "queue", "waiting"}
    assert set(Constants.__slots__) == {"before", "equal", "high", "keys", "labels", "low"}
    aspects = {"backwards", "latitude", "longitude", "patterns", "topics"}
    assert set(IndexedAttribute.__slots__) == aspects | {"plain", "slot"}


def test_topic_patterns_are_found_in_a_loaded_index_and_more_can_be_added(tmp_path: Path) -> None:
    index = IndexMatcher()
    for number, pattern in enumerate(("fleet/+", "fleet/#", "+/a", "$SYS/#")):
        index.add(number, parse(f"topic LIKE TOPIC '{pattern}'"))
    index.save(tmp_path / "index")
    loaded = IndexMatcher.load(tmp_path / "index")
    loaded.add(4, parse("topic LIKE TOPIC 'fleet/+/b'"))
    assert set(loaded.match(event({"topic": "fleet/a"}))) == {0, 1, 2}
    assert set(loaded.match(event({"topic": "fleet/a/b"}))) == {1, 4}
    assert set(loaded.match(event({"topic": "$SYS/a"}))) == {3}


def test_texts_asked_for_by_equality_may_be_put_in_order_later(tmp_path: Path) -> None:
    index, naive = IndexMatcher(), NaiveMatcher()
    for matcher in (index, naive):
        matcher.add_many((n, some("x", one_of([f"t{n}"]))) for n in range(40))
        matcher.add_many((("y", n), some("y", at_most(f"t{n}"))) for n in range(40))
    loaded = reloaded(index, tmp_path)
    rows = [{name: f"t{n}{end}"} for name in "xy" for n in range(40) for end in ("", "!")]
    assert_same(loaded, naive, rows)
    for matcher in (loaded, naive):
        matcher.add_many((("one", name), some(name, one_of(["t7!"]))) for name in "xy")
        matcher.add("order", some("x", at_least("t3")))
    assert_same(reloaded(loaded, tmp_path), naive, rows)
    assert_same(loaded, naive, rows)


def _scratch_names() -> set[str]:
    layout = IndexMatcher()._layout
    before = dict(vars(layout))
    layout._scratch(1)
    return {name for name, value in vars(layout).items() if value is not before[name]}


@pytest.mark.skipif(not kernels.COMPILED, reason="without Numba nothing is compiled")
def test_the_kernels_are_not_compiled_again_for_mapped_arrays(tmp_path: Path) -> None:
    index, _, draw = random_pair(6, 50)
    row = event(random_attributes(draw))
    index.match(row)
    loaded = reloaded(index, tmp_path)
    before = len(batch_kernels.match_one.signatures)
    loaded.match(row)
    assert len(batch_kernels.match_one.signatures) == before


def test_what_only_changes_need_is_not_read_before(tmp_path: Path) -> None:
    index, _, draw = random_pair(7, 300)
    loaded = reloaded(index, tmp_path)
    loaded.match_batch(columns_of([random_attributes(draw) for _ in range(50)]))
    assert len(loaded) == len(index)
    assert {type(each).__name__ for each in (loaded._numbers, loaded._compiler.nodes)} == {"Deferred"}
    loaded.add("one", random_filter(draw))
    assert type(loaded._numbers) is dict


# ---------------------------------------------------------------- files

SCRIPT = """
import json, sys
from godwit.filters.events import event
from godwit.matching.index_matcher import IndexMatcher
index = IndexMatcher.load(sys.argv[1])
found = [index.match(event(row)) for row in json.loads(sys.argv[2])]
index.remove(found[0][0])
print(json.dumps([found, index.match(event(json.loads(sys.argv[2])[0]))]))
"""


def test_other_processes_load_the_same_file_and_do_not_disturb_each_other(tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add_many((n, all_of(some("x", at_most(n)), some("name", like("a%b")))) for n in range(300))
    rows = [{"x": 250, "name": "a-b"}, {"x": 1, "name": "b"}, {"x": 299, "name": ["c", "ab"]}]
    loaded = reloaded(index, tmp_path)
    before = (tmp_path / "index").read_bytes()
    expected = [index.match(event(row)) for row in rows]
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path / "index"), msgspec.json.encode(rows).decode()]
    runs = [subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    for run in runs:
        out, _ = run.communicate(timeout=100)
        assert run.returncode == 0
        assert msgspec.json.decode(out) == [expected, expected[0][1:]]
    assert [loaded.match(event(row)) for row in rows] == expected
    assert (tmp_path / "index").read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_maps_pages_instead_of_copying_them(tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add_many((n, all_of(some("x", one_of([n])), some("y", at_most(n)))) for n in range(20_000))
    index.match(event({"x": 5, "y": 5}))
    loaded = reloaded(index, tmp_path)
    assert loaded.match(event({"x": 5, "y": 5})) == [5]
    maps = Path("/proc/self/smaps").read_text().split(str(tmp_path / "index"))[1]
    kilobytes = {line.split()[0]: int(line.split()[1]) for line in maps.splitlines()[1:20] if line.endswith("kB")}
    assert kilobytes["Size:"] > 1_000
    assert kilobytes["Private_Dirty:"] < 100  # what matching wrote to, and no more


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = IndexMatcher(), IndexMatcher()
    first.add(1, some("x", at_most(3)))
    second.add(2, some("x", at_most(3)))
    path = tmp_path / "index"
    first.save(path)
    mapped = IndexMatcher.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        with pytest.raises(OSError, match="no space"):
            second.save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["index"]
    assert IndexMatcher.load(str(path)).match(event({"x": 1})) == [1]
    second.save(path)
    assert IndexMatcher.load(path).match(event({"x": 1})) == [2]
    assert mapped.match(event({"x": 1})) == [1]  # who has the old one mapped keeps it
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _full(_: int) -> None:
    raise OSError("no space left on device")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def changed(at: int, to: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + to + data[at + len(to) :]


BAD_FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "is not an index"),
    "a text": (lambda data: b"price < 10\n" * 500, "is not an index"),
    "a header cut off": (lambda data: data[:30], "is cut off after 30 bytes"),
    "only a header": (lambda data: data[: index_file.HEADER.size], "is cut off or changed"),
    "arrays cut off": (lambda data: data[:-1], "is cut off or changed"),
    "half": (lambda data: data[: len(data) // 2], "is cut off or changed"),
    "too long": (lambda data: data + b"\0", "is cut off or changed"),
    "newer": (changed(8, struct.pack("<I", index_file.FORMAT + 1)), "has format 4, this Godwit reads format 3"),
    "metadata without end": (changed(16, struct.pack("<Q", 2**63)), "is cut off or changed"),
    "another length of metadata": (changed(16, struct.pack("<Q", 9)), "metadata is not what was written"),
    "damaged metadata": (changed(index_file.HEADER.size + 40, b"\xff\xff"), "metadata is not what was written"),
    "another digest": (changed(index_file.HEADER.size - 1, b"\x00\x01"), "metadata is not what was written"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_whole_index_is_refused(name: str, tmp_path: Path) -> None:
    damage, message = BAD_FILES[name]
    index, _, _ = random_pair(8, 30)
    path = tmp_path / "index"
    index.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(IndexFileError, match=message) as caught:
        IndexMatcher.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, GodwitError)


def test_damaged_arrays_are_found_when_asked_for(tmp_path: Path) -> None:
    index, _, _ = random_pair(9, 30)
    path = tmp_path / "index"
    index.save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\xa5")
    with pytest.raises(IndexFileError, match="arrays are not what was written"):
        IndexMatcher.load(path, verify=True)


def test_no_byte_of_header_and_metadata_can_change_unnoticed(tmp_path: Path) -> None:
    index = IndexMatcher()
    index.add("a", some("x", at_most(3)))
    path = tmp_path / "index"
    index.save(path)
    data = path.read_bytes()
    [metadata_length] = struct.unpack_from("<Q", data, 16)
    for at in range(index_file.HEADER.size + metadata_length):
        path.write_bytes(changed(at, bytes([data[at] ^ 1]))(data))
        with pytest.raises(IndexFileError):
            IndexMatcher.load(path)


def test_an_index_laid_out_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, _, _ = random_pair(10, 30)
    index.save(tmp_path / "index")
    index_file._fingerprint.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "KIND_SHIFT", 25)
        with pytest.raises(IndexFileError, match="another version"):
            IndexMatcher.load(tmp_path / "index")
    index_file._fingerprint.cache_clear()
    IndexMatcher.load(tmp_path / "index")


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        IndexMatcher.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        IndexMatcher().save(tmp_path / "none" / "index")
