"""The audit log: on the disk before anything is shown, bounded, and not about the user of the peer."""

from contextlib import closing
from pathlib import Path

from godwit.teamwork.audit_log import AuditLog


def test_entries_are_there_after_the_log_was_opened_again(tmp_path: Path) -> None:
    with closing(AuditLog(tmp_path, "ann", lambda: 5.0)) as log:
        log.show([("community/ann.1", "artefact/1"), ("community/ann.1", "artefact/2")], "bob", "search")
        log.show([("community/ann.1", "artefact/1")], "cid", "file", "00ff")
    with closing(AuditLog(tmp_path, "ann")) as log:
        first, second, third = log.entries()
        assert (first.number, first.time, first.user, first.way) == (1, 5.0, "bob", "search")
        assert (third.user, third.record, third.detail) == ("cid", "artefact/1", "00ff")
        assert log.entries(since=2) == [third]
        assert log.entries(user="bob") == [first, second]
        assert log.entries(count=1) == [first]
        assert log.entries(count=2, newest=True) == [third, second]
        assert log.entries(user="bob", count=1, newest=True) == [second]
        assert log.dropped == 0


def test_what_the_user_of_the_peer_reads_is_not_recorded(tmp_path: Path) -> None:
    with closing(AuditLog(tmp_path, "ann")) as log:
        log.show([("s", "r")], "ann")
        log.show([], "bob")
        assert log.entries() == []


def test_the_oldest_entries_go_and_are_counted(tmp_path: Path) -> None:
    with closing(AuditLog(tmp_path, "ann", entries_max=10)) as log:
        for number in range(100):
            log.show([("s", f"r/{number}")], "bob", "search")
            kept = log.entries()
            assert kept[-1].record == f"r/{number}"
            assert len(kept) <= 20
            assert log.dropped + len(kept) == number + 1
        assert log.dropped >= 80


def test_a_view_is_recorded_once_in_a_while_and_everything_else_each_time(tmp_path: Path) -> None:
    now = [0.0]
    with closing(AuditLog(tmp_path, "ann", lambda: now[0])) as log:
        for _ in range(61):
            log.show([("s", "r")], "bob")
            now[0] += 1.0
        assert [entry.time for entry in log.entries()] == [0.0, 60.0]
        log.show([("s", "r")], "cid")
        for _ in range(2):
            log.show([("s", "r")], "bob", "search")
        assert [(entry.user, entry.way) for entry in log.entries(2)] == [
            ("cid", "view"),
            ("bob", "search"),
            ("bob", "search"),
        ]
