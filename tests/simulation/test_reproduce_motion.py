"""The experiments of motion, very small: what is decided is what brute force says, and what breaks a claim is seen."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

from godwit.languages.tiers import to_middle, xqlmatch
from godwit.languages.tiers.isl import FALSE as NOTHING
from godwit.languages.xml_documents import parsed_document
from godwit.languages.xql.parsing import parsed_query
from godwit.languages.xql.printing import printed_query
from godwit.matching import BddMatcher, IndexMatcher
from godwit.reproduce import PAPERS, Claim, Setting, claims_of
from godwit.reproduce.motion import matching_claims, residue_claims, run_sizes, tier_claims
from godwit.reproduce.motion.profile_queries import profile_queries
from godwit.reproduce.motion.profiles import Profiles, artefact_document
from godwit.reproduce.motion.random_queries import random_document, random_query
from godwit.reproduce.motion.residues import ProfileWorkload, Residues, residues

TINY = structs.replace(
    run_sizes.QUICK,
    documents=60,
    queries=6,
    subscriptions=(60, 120),
    publications=40,
    matched_subscriptions=150,
    matched_publications=40,
    expiring=120,
    rounds=1,
)


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    monkeypatch.setattr(run_sizes, "QUICK", TINY)
    return Setting(folder=tmp_path)


# ---------------------------------------------------------------- what is drawn


def test_the_same_seed_draws_the_same_and_fewer_are_the_first_of_more() -> None:
    profiles = Profiles(3, users=20, communities=4, artefacts=30)
    again = Profiles(3, users=20, communities=4, artefacts=30)
    assert profiles.artefacts == again.artefacts
    assert profiles.publications(5, 3) == again.publications(5, 3)
    some, more = (list(islice(profile_queries(profiles, 3), count)) for count in (10, 40))
    assert some == more[:10]
    assert list(islice(profile_queries(Profiles(4, 20, 4, 30), 4), 10)) != some


def test_a_subscription_to_an_artefact_wants_the_profile_it_is_drawn_from_or_nothing_with_an_all() -> None:
    """A condition on all parts may be met by none but some of them; all other forms ask for what is there."""
    [artefact] = Profiles(1, users=20, communities=4, artefacts=1).artefacts
    profiles = Profiles(1, users=20, communities=4, artefacts=1)
    root = parsed_document(artefact_document(artefact))
    asked = list(islice(profile_queries(profiles, 1, has_unknown=True), 150))[2::3]
    assert all(text.startswith("./Artefact") for text in asked)
    assert all(xqlmatch(root, parsed_query(text)) for text in asked if "$all$" not in text)


def test_random_queries_are_printed_and_read_again_and_find_something() -> None:
    draw, found = Random(2), 0
    for _ in range(300):
        query, root = random_query(draw), parsed_document(random_document(draw))
        is_found = xqlmatch(root, query)
        assert xqlmatch(root, parsed_query(printed_query(query))) == is_found
        found += is_found
    assert 60 < found < 240


# ---------------------------------------------------------------- M1 and M2


def test_no_tier_loses_an_event_and_a_tier_that_does_is_seen(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tier_claims.law_counts(setting, TINY)
    assert found.lost == 0
    assert 0 < found.top < found.pairs
    assert found.middle >= found.top
    assert found.spear >= found.middle
    right = to_middle()
    wrong = replace(right, of_query=lambda said: NOTHING)
    monkeypatch.setattr(tier_claims, "to_middle", lambda: wrong)
    claim = tier_claims.nothing_is_lost(setting, TINY)
    assert not claim.holds
    assert f"lost {found.top}, 0 and 0" in claim.ours


def test_the_listings_and_tables_are_the_papers_and_another_sign_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tier_claims.listings().holds
    monkeypatch.setattr(tier_claims, "LISTING_4", tier_claims.LISTING_4.replace("#1050##5473#", "#1050#5473#"))
    claim = tier_claims.listings()
    assert not claim.holds
    assert claim.ours == "DIFFERENT in Listing 4"


# ---------------------------------------------------------------- M3 and M6


def test_what_is_forwarded_and_wanted_is_what_brute_force_says() -> None:
    workload = ProfileWorkload(1, 90, 30)
    [(spear, ours)] = residues(workload, [90], lambda *_: None).values()
    roots = [parsed_document(document) for document in workload.documents]
    said = [parsed_query(text) for text in workload.texts]
    wanted = sum(xqlmatch(root, query) for root in roots for query in said)
    assert spear.matched - spear.negative == ours.matched - ours.negative == wanted > 0
    assert (spear.lost, ours.lost) == (0, 0)
    assert ours.negative <= spear.negative
    assert spear.positive + spear.negative <= spear.matched


def test_the_quick_run_counts_what_it_counted_when_its_verdict_was_written_down() -> None:
    """The first size of the quick run: counts are the same everywhere. docs/papers.md has the verdict."""
    [(spear, ours)] = residues(ProfileWorkload(1, 500, run_sizes.QUICK.publications), [500], lambda *_: None).values()
    assert (spear.matched, spear.negative, spear.positive, spear.lost) == (78, 3, 7, 0)
    assert (ours.matched, ours.negative, ours.positive, ours.lost) == (76, 1, 4, 0)


def test_an_event_that_a_tier_loses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = ProfileWorkload(1, 90, 30)
    right = workload.ssl
    monkeypatch.setattr(workload, "ssl", lambda number: right(0))  # which is about users
    [(spear, ours)] = residues(workload, [90], lambda *_: None).values()
    assert spear.matched == 0
    assert spear.lost == ours.matched - ours.negative > 0


def row(tier: str, negative: int, positive: int, lost: int = 0) -> Residues:
    return Residues(tier, 20_000, 1_100, 900, positive, negative, 1_000, negative, lost)


@pytest.mark.parametrize(
    ("negative", "positive", "lost", "holds"),
    [(39, 130, 0, True), (39, 70, 0, False), (100, 300, 0, False), (39, 130, 1, False)],
)
def test_the_claim_on_residues_is_decided_by_its_bounds(
    setting: Setting, negative: int, positive: int, lost: int, holds: bool
) -> None:
    rows = {20_000: (row("SPEAR", negative, positive, lost), row("ours", 10, 90))}
    claim = residue_claims.residue_shares(setting, rows, row("SPEAR", 200, 100))
    assert claim.holds is holds
    assert (setting.folder / "residues.png").exists()


def test_the_load_on_a_peer_follows_from_matches_in_a_minute() -> None:
    rows = {20_000: (row("SPEAR", 36, 120), row("ours", 10, 90))}
    claim = residue_claims.load_on_a_peer(rows, 1_000)
    assert claim.holds
    assert "60 notifications an hour, 2.2 discarded" in claim.ours
    assert "66 for each of 1,000 peers" in claim.note
    assert not residue_claims.load_on_a_peer({20_000: (row("SPEAR", 100, 120), row("ours", 1, 9))}, 1_000).holds


# ---------------------------------------------------------------- M4 and M5


def test_both_matchers_agree_and_one_that_differs_is_seen(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    assert matching_claims.matching_times(setting, TINY).agree
    matched = matching_claims._matched

    def forgetting(matcher: Any, events: Any) -> Any:
        seconds, found = matched(matcher, events)
        return seconds, found if isinstance(matcher, BddMatcher) else [[] for _ in found]

    monkeypatch.setattr(matching_claims, "_matched", forgetting)
    claim = matching_claims.thousand_publications(setting, TINY)
    assert not claim.holds
    assert "DIFFERENT by both" in claim.ours


def test_few_subscriptions_can_refute_the_time_of_spear_and_not_confirm_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert matching_claims.thousand_publications(setting, TINY).grade == "not decided"
    assert matching_claims.thousand_publications(structs.replace(setting, full=True), TINY).grade == "holds"
    monkeypatch.setattr(matching_claims, "PAPER_S", 0.0)
    assert matching_claims.thousand_publications(setting, TINY).grade == "does not hold"


def test_what_has_expired_is_as_if_it_had_never_been(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_claims, "process_time", iter(range(1_000)).__next__)  # each round takes as long
    assert all(
        each.is_as_if_never and each.is_tested and each.cost == 1 for each in matching_claims.expiry(setting, TINY)
    )
    assert matching_claims.expired_subscriptions(setting, TINY).holds
    monkeypatch.setattr(IndexMatcher, "expire", lambda self, now: [])
    assert not matching_claims.expired_subscriptions(setting, TINY).holds


# ---------------------------------------------------------------- all together


def test_every_claim_gives_one_row_in_the_order_of_their_keys(setting: Setting) -> None:
    found: list[Claim] = list(claims_of("motion", setting))
    assert tuple(claim.key for claim in found) == PAPERS["motion"][1]
    assert all(claim.ours and claim.paper and claim.where for claim in found)
    assert (setting.folder / "measured.json").exists()
