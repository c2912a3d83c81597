"""The benchmark of teamwork runs, and a wrong answer is noticed. Sizes are tiny: no figure counts."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import teamwork, teamwork_transfer
from benchmarks.teamwork import Bench, Disagreement, Part, Scale
from benchmarks.teamwork_load import LoadScale
from benchmarks.teamwork_network import SearchScale
from benchmarks.teamwork_profiles import KINDS, ProfileWorkload
from benchmarks.teamwork_transfer import Transfer, TransferScale, transfer_rows
from godwit.languages import parse_query
from godwit.languages.xml_documents import xml_event
from godwit.teamwork import profile_index
from godwit.teamwork.manifests import CHUNK_BYTES

TINY = Scale(300, 30, 30, 300, SearchScale(12, 240, 2, 3), LoadScale(minutes=0.2, events_per_s=1_000.0, idle_s=0.1))


INDEX = ["index-filling", "index-median", "index-p99"]


@pytest.fixture(autouse=True)
def disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search for garbage before each timing: no figure counts, and a run of tests leaves much to search."""
    monkeypatch.setattr(teamwork, "undisturbed", nullcontext)


def test_index_and_network_give_their_figures(tmp_path: Path) -> None:
    said: list[float] = []
    bench = Bench(TINY, tmp_path, lambda message, done: said.append(done))
    rows = [row for part in Part if part is not Part.TRANSFER for row in bench.rows(part)]
    names = [*INDEX, "search-first", "search-messages", "load-told", "load-discarded", "load-changes", "load-cpu"]
    assert [row.name for row in rows] == names
    assert all(
        row.figure > 0 for row in rows if row.name not in ("search-first", "load-told", "load-discarded", "load-cpu")
    )
    assert {row.verdict for row in rows} == {"", "not at this size"}
    assert all(0 <= done <= 1 for done in said)
    again = list(Bench(TINY, tmp_path, lambda message, done: None).rows(Part.INDEX))
    assert [row.name for row in again] == ["index-median", "index-p99"], "the index is kept"


def test_a_transfer_gives_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teamwork_transfer, "MEMORY", Path("not there"))
    monkeypatch.setattr(Transfer, "curl", lambda transfer, url: 0.5)
    monkeypatch.setattr(Transfer, "web_server", lambda transfer: nullcontext(("", "no server")))
    rows = list(transfer_rows(TransferScale(5 * CHUNK_BYTES + 1, 1, is_full=False), lambda message, done: None))
    assert [row.name for row in rows] == ["transfer-disk", "transfer-disk-ratio", "transfer-resume"]
    assert rows[0].figure > 0
    assert rows[2].figure == 0


def test_an_index_that_misses_profiles_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_index, "key_of", lambda text: text[:3])
    with pytest.raises(Disagreement):
        list(Bench(TINY, tmp_path, lambda message, done: None).rows(Part.INDEX))


def test_every_kind_of_query_finds_the_profile_that_it_was_made_for() -> None:
    made = ProfileWorkload(2_000)
    events = [xml_event(entry.document) for entry in made.entries()]
    found = dict.fromkeys(KINDS, 0)
    for kind, text in made.queries(60):
        query = parse_query(text, "xql")
        found[kind] += sum(query.matches(event) for event in events)
    assert [kind for kind, count in found.items() if not count] in ([], ["two skills, not a role"])
