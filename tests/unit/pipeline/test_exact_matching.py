"""Exact tests in a worker, without Spark: the answers of the queries themselves, each test once, residues counted."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from godwit.errors import PipelineError, QueryTooCostly
from godwit.filters import parse
from godwit.languages import Query, Subject, parse_query, xml_documents
from godwit.pipeline import exact_matching, row_ranges
from godwit.pipeline.subscription_index import SubscriptionIndex, Wanted
from godwit.pipeline.table_matching import Done, work_off
from tests.unit.pipeline.mixed_languages import expected, queries, residues, write_table
from tests.unit.pipeline.test_table_matching import pieces_of


def done(folder: Path, wanted: dict[str, Wanted], out: Path | None = None) -> Done:
    forms = write_table(folder / "events") if not (folder / "events").exists() else {}
    index = SubscriptionIndex(wanted).save(folder / "index")
    [found] = work_off(pieces_of(folder / "events"), index, forms, None if out is None else str(out))
    return found


def test_workers_answer_as_the_queries_do(tmp_path: Path) -> None:
    counted = done(tmp_path, dict(queries()))
    written = done(tmp_path, dict(queries()), tmp_path)
    table = pq.read_table(tmp_path / str(written.file), partitioning=None).to_pylist()
    assert {row["sequence"]: sorted(row["subscriptions"]) for row in table} == expected()
    assert written._replace(file=None) == counted
    assert counted.pairs == sum(map(len, expected().values()))
    assert counted.residues == residues() > 0
    assert counted.undecided == 0


@pytest.mark.parametrize("rows", [1, 3, 1_000])
def test_rows_in_any_portions_give_the_same(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "WHOLE_ROWS_AT_ONCE", rows)
    monkeypatch.setattr(exact_matching, "EVENTS_AT_ONCE", rows)
    write_table(tmp_path / "events")
    index = SubscriptionIndex(dict(queries())).save(tmp_path / "index")
    [piece] = pieces_of(tmp_path / "events")
    cut = [piece._replace(last=5), piece._replace(first=5, last=6), piece._replace(first=6)]
    found = [each for one in cut for each in work_off([one], index, {}, None)]
    assert sum(each.pairs for each in found) == sum(map(len, expected().values()))
    assert sum(each.residues for each in found) == residues()


def test_equal_queries_share_a_test_and_a_document_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Counter[bytes] = Counter()
    tested: Counter[str] = Counter()
    read, wants = xml_documents.parsed_document, Query.wants

    def counting(data: bytes) -> Any:
        parsed[data] += 1
        return read(data)

    def wanting(query: Query, subject: Subject) -> bool:
        tested[query.text] += 1
        return wants(query, subject)

    asked = ["User[Sex = 'female']", "User/Address[Zip = 1050 $and$ City = 'Wien']"]
    wanted: dict[str, Wanted] = {f"{n}.{text}": parse_query(text, "xql") for n in range(20) for text in asked}
    write_table(tmp_path / "events")
    monkeypatch.setattr(xml_documents, "parsed_document", counting)
    monkeypatch.setattr(Query, "wants", wanting)
    found = done(tmp_path, wanted)
    assert found.pairs == 20 * 4
    assert parsed.total() == len(parsed) == 3  # the users: no filter lets the group through
    assert set(tested.values()) == {2, 3}
    assert found.residues == 20


def test_where_no_query_has_a_test_nothing_is_tested(tmp_path: Path) -> None:
    wanted: dict[str, Wanted] = {
        "a": parse("amount > 10"),
        "b": parse_query("amount > 10", "cql2-text"),
        "c": parse_query("amount > 10 AND type = 'order'", "cesql"),
    }
    plain = {id: each for id, each in wanted.items() if not isinstance(each, Query) or each.test is None}
    index = SubscriptionIndex(plain)
    file = index.save(tmp_path)
    assert {"a", "b"} <= set(plain)
    assert (index.tests, file.tests, index.distinct < len(plain)) == (0, 0, True)
    assert file.open().testing().of(None) is None


def test_a_test_that_cannot_be_decided_is_counted_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wants, answers = Query.wants, expected()

    def giving_up(query: Query, subject: Subject) -> bool:
        if query.language == "xpath":
            raise QueryTooCostly("a test of more than 7 steps")
        return wants(query, subject)

    monkeypatch.setattr(Query, "wants", giving_up)
    some: dict[str, Wanted] = {id: each for id, each in queries().items() if id in ("wien", "same by xpath", "native")}
    found = done(tmp_path, some)
    only = {number: [id for id in ids if id in ("wien", "native")] for number, ids in answers.items()}
    assert found.pairs == sum(map(len, only.values()))
    assert found.undecided > 0
    assert "xpath query" in found.reason
    assert "7 steps" in found.reason


def test_an_index_follows_changes_of_queries(tmp_path: Path) -> None:
    index = SubscriptionIndex({"a": parse_query("User[Sex = 'female']", "xql"), "b": parse("x > 1")})
    assert (index.tests, index.distinct) == (1, 2)
    changed = {"a": parse_query("User[Sex = 'male']", "xql"), "b": parse("x > 1"), "c": parse("x > 2")}
    assert index.change_to(changed) == 2
    assert index.change_to({**changed, "a": parse_query("User[Sex='male']", "xql")}) == 0  # the same, printed
    assert index.tests == 1
    del changed["a"]
    assert index.change_to(changed) == 1
    assert index.save(tmp_path).tests == 0


def test_a_query_that_a_worker_cannot_read_is_named() -> None:
    tests = exact_matching.ExactTests([0], [exact_matching.QueryText("xql", "User[")], 1)
    with pytest.raises(PipelineError, match=r"a worker cannot read the xql query 'User\['"):
        tests.query(0)
