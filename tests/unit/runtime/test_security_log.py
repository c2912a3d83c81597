"""What is refused is counted and logged: once, within bounds, and without a way to forge a line."""

import asyncio
import io
import json
import re
from typing import Any

import pytest

from godwit.broker.effects import Tell
from godwit.broker.messages import Accepted, Attach, Refused
from godwit.errors import NotAdmitted, PeerFault
from godwit.runtime.authentication import Credentials, LocalAuthenticator, Principal
from godwit.runtime.line_limits import ALL_BURST, PEERS_MAX
from godwit.runtime.line_limits import PEER_BURST as HOST_BURST
from godwit.runtime.log import make_log
from godwit.runtime.metrics import METRICS
from godwit.runtime.security_log import (
    CAUSES,
    AuditedAuthenticator,
    RefusalObserver,
    SecurityLog,
)
from tests.conventions.repository import ROOT

GUIDE = (ROOT / "docs" / "guides" / "secure.md").read_text(encoding="utf-8")


class Kept:
    """A security log whose lines are kept, with a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[dict[str, Any]] = []
        self.log = SecurityLog(lambda event, **fields: self.lines.append({"event": event, **fields}), lambda: self.now)


def test_a_refused_login_is_counted_and_logged_without_its_secrets() -> None:
    kept = Kept()
    authenticator = AuditedAuthenticator(LocalAuthenticator(), "mqtt", kept.log)
    who = Credentials("192.0.2.7", "phone", "ann", "hunter2", "ey.secret.token")
    with pytest.raises(NotAdmitted):
        asyncio.run(authenticator.admit(who))
    assert kept.log.logins == {("mqtt", "anonymous"): 1}
    assert kept.lines == [
        {
            "event": "refused login",
            "host": "192.0.2.7",
            "listener": "mqtt",
            "user": "ann",
            "client": "phone",
            "cause": "anonymous",
            "reason": "this broker has no users, so it accepts clients from its own machine only",
        }
    ]
    assert "hunter2" not in str(kept.lines)
    assert "secret" not in str(kept.lines)


def test_the_new_level_of_the_log_is_told_beside_the_level_of_the_line() -> None:
    kept = Kept()
    kept.log.done("log-level", "192.0.2.7", "ann", level="debug")
    assert kept.lines == [
        {"event": "administration", "host": "192.0.2.7", "action": "log-level", "user": "ann", "new_level": "debug"}
    ]


def test_who_is_let_in_is_known_by_where_it_came_from() -> None:
    kept = Kept()
    principal = asyncio.run(AuditedAuthenticator(LocalAuthenticator(), "http", kept.log).admit(Credentials()))
    assert (principal.origin.listener, principal.origin.host) == ("http", "")
    assert not kept.lines


def test_a_name_of_another_user_is_a_refused_login() -> None:
    kept = Kept()
    principal = Principal("ann")
    principal.origin = asyncio.run(
        AuditedAuthenticator(LocalAuthenticator(), "native", kept.log).admit(Credentials())
    ).origin
    with pytest.raises(PeerFault, match="not a name for a client of ann"):
        principal.checked(Attach("ben"))
    assert kept.log.logins == {("native", "name"): 1}
    assert kept.lines[0]["client"] == "ben"


def test_lines_of_one_host_are_limited_and_the_next_one_says_how_many_are_missing() -> None:
    kept = Kept()
    for _ in range(HOST_BURST + 7):
        kept.log.login("native", "192.0.2.7", "no", "password")
    kept.log.login("native", "192.0.2.8", "no", "password")
    assert len(kept.lines) == HOST_BURST + 1
    assert kept.lines[-1]["suppressed"] == 7
    kept.now = 1.0
    kept.log.login("native", "192.0.2.7", "no", "password")
    assert len(kept.lines) == HOST_BURST + 2
    assert "suppressed" not in kept.lines[-1]
    assert kept.log.logins["native", "password"] == HOST_BURST + 9


def test_lines_of_all_hosts_together_and_the_table_of_hosts_are_limited() -> None:
    kept = Kept()
    for host in range(2 * PEERS_MAX):
        kept.log.connection("http", f"192.0.{host // 256}.{host % 256}", "no", "limit")
    assert len(kept.lines) == ALL_BURST
    assert len(kept.log._limits._peers) == PEERS_MAX
    assert kept.log.connections["http", "limit"] == 2 * PEERS_MAX


def test_a_connection_that_ends_after_a_refused_login_has_no_second_line() -> None:
    kept = Kept()
    kept.log.connection("native", "192.0.2.7", "no such user", "login")
    kept.log.connection("native", "192.0.2.7", "the user was removed", "ended")
    assert not kept.lines
    assert kept.log.connections == {("native", "login"): 1}


def test_a_broker_that_does_not_prove_its_name_is_a_refused_login() -> None:
    kept = Kept()
    kept.log.connection("native", "192.0.2.7", "the peer that calls itself b2 does not know the secret", "link")
    assert [line["event"] for line in kept.lines] == ["refused login"]
    assert kept.log.logins == {("native", "link"): 1}


def test_what_the_machine_refuses_is_found_among_its_effects() -> None:
    found: list[Any] = []
    observer = RefusalObserver(lambda connection, refused: found.append((connection, refused.number)))
    observer.on_effects([Tell("c1", Accepted(1)), Tell("c2", Refused(2, "no"))], 0.0)
    assert found == [("c2", 2)]


def test_a_cause_that_is_not_known_does_not_become_a_label() -> None:
    kept = Kept()
    kept.log.login("native", "h", "no", "made up by a plugin")
    assert kept.log.logins == {("native", "other"): 1}


def pattern() -> re.Pattern[str]:
    """The pattern of the guide, as fail2ban reads it."""
    [said] = re.findall(r"^failregex = (.*)$", GUIDE, re.MULTILINE)
    return re.compile(said.replace("<HOST>", r"(?P<host>[0-9a-fA-F:.]+)"))


def logged(report: Any) -> str:
    written = io.StringIO()
    log = make_log("info", "json", written)
    report(SecurityLog(log.warning))
    return written.getvalue()


def test_the_pattern_of_the_guide_finds_the_host() -> None:
    line = logged(lambda log: log.login("mqtt", "2001:db8::7", "no", "password", user="ann", client="phone"))
    found = pattern().search(line)
    assert found is not None
    assert found["host"] == "2001:db8::7"
    assert json.loads(line)["event"] == "refused login"


@pytest.mark.parametrize(
    "user", ['x", "host": "203.0.113.1', '\n{"host": "203.0.113.1", "cause": "password", "event": "refused login"']
)
def test_nobody_writes_the_host_of_somebody_else_into_a_line(user: str) -> None:
    lines = logged(lambda log: log.login("mqtt", "192.0.2.7", "no", "password", user=user)).splitlines()
    assert len(lines) == 1
    found = pattern().search(lines[0])
    assert found is not None
    assert found["host"] == "192.0.2.7"


def test_the_pattern_does_not_ban_who_only_asks_for_too_much() -> None:
    line = logged(
        lambda log: log.request("http", "192.0.2.7", "you are not allowed to publish that", "rights", user="ann")
    )
    assert pattern().search(line) is None


def test_every_cause_is_in_the_guide() -> None:
    assert [cause for cause, meaning in CAUSES.items() if f"| `{cause}` | {meaning} |" not in GUIDE] == []
    assert all(f"godwit_refused_{what}_total" in METRICS for what in ("logins", "requests", "connections"))
