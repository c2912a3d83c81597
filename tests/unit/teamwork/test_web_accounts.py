"""Accounts of thin clients: secrets end when they must, and the file does not give them away."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import PeerFault, Refused
from godwit.runtime.users import Passwords
from godwit.teamwork.names import NotThere
from godwit.teamwork.web_accounts import CODE_S, DAY_S, KEYS_MAX, SESSION, SESSION_S, TOKEN, WebAccounts, new_hash


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Any:
    return Clock()


@pytest.fixture
def accounts(tmp_path: Path, clock: Any) -> Iterator[WebAccounts]:
    made = WebAccounts(tmp_path, Passwords(lambda hash, password: hash == f"hash of {password}"), clock)
    yield made
    made.close()


def login(accounts: WebAccounts, user: str, password: str, host: str = "h") -> None:
    asyncio.run(accounts.check_password(user, password, host))


def test_a_secret_is_known_until_it_ends(accounts: WebAccounts, clock: Any) -> None:
    secret, key = accounts.new_session("ann", "Firefox\non a phone")
    assert accounts.key_of(secret) == key
    assert key.label == "Firefoxon a phone"
    assert accounts.key_of(f"{secret}x") is None
    assert accounts.key_of("") is None
    clock.now += SESSION_S - 1
    assert accounts.is_open(key)
    clock.now += 1
    assert accounts.key_of(secret) is None
    assert not accounts.is_open(key)


def test_a_code_is_good_for_one_login_within_a_day(accounts: WebAccounts, clock: Any) -> None:
    code = accounts.new_code("ann")
    assert accounts.key_of(code) is None
    assert accounts.user_of_code(code, "h") == "ann"
    with pytest.raises(PeerFault, match="was used, or has expired"):
        accounts.user_of_code(code, "h")
    late = accounts.new_code("ann")
    clock.now += CODE_S
    with pytest.raises(PeerFault, match="was used, or has expired"):
        accounts.user_of_code(late, "h")


def test_no_secret_is_in_the_file(accounts: WebAccounts, tmp_path: Path) -> None:
    secrets = [accounts.new_session("ann", "")[0], accounts.new_token("ann", "", DAY_S)[0], accounts.new_code("ann")]
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert files
    assert not any(secret.encode() in files for secret in secrets)


def test_an_end_is_by_its_user_alone(accounts: WebAccounts) -> None:
    secret, key = accounts.new_token("ann", "backup", DAY_S)
    with pytest.raises(NotThere):
        accounts.end("bob", key.id)
    assert accounts.keys("bob", TOKEN) == []
    accounts.end("ann", key.id)
    assert accounts.key_of(secret) is None


def test_sessions_and_tokens_are_counted(accounts: WebAccounts, clock: Any) -> None:
    first, _ = accounts.new_session("ann", "")
    for _ in range(KEYS_MAX):
        clock.now += 1
        last, _ = accounts.new_session("ann", "")
        accounts.new_token("ann", "", DAY_S)
    assert len(accounts.keys("ann", SESSION)) == KEYS_MAX
    assert accounts.key_of(first) is None
    assert accounts.key_of(last) is not None
    with pytest.raises(Refused, match="at most 50 tokens"):
        accounts.new_token("ann", "", DAY_S)
    accounts.new_token("bob", "", DAY_S)
    for expires_s in (0.0, -1.0, 400 * DAY_S, float("nan")):
        with pytest.raises(Refused, match="a token is good for"):
            accounts.new_token("bob", "", expires_s)


def test_a_new_password_ends_other_sessions(accounts: WebAccounts) -> None:
    assert not accounts.has_password("ann")
    here, key = accounts.new_session("ann", "")
    there, _ = accounts.new_session("ann", "")
    others, _ = accounts.new_session("bob", "")
    accounts.set_hash("ann", "hash of long enough", kept=key.id)
    assert accounts.has_password("ann")
    assert accounts.key_of(here) is not None
    assert accounts.key_of(there) is None
    assert accounts.key_of(others) is not None
    login(accounts, "ann", "long enough")
    with pytest.raises(Refused, match="at least 8"):
        new_hash("short")


def test_wrong_passwords_must_wait_longer_each_time(accounts: WebAccounts, clock: Any) -> None:
    accounts.set_hash("ann", "hash of right")
    for user in ("ann", "nobody"):
        with pytest.raises(PeerFault, match="there is no such user, or the password is wrong"):
            login(accounts, user, "wrong")
    for _ in range(4):
        with pytest.raises(PeerFault, match="is wrong"):
            login(accounts, "ann", "wrong")
    with pytest.raises(PeerFault, match="try again in 1 s"):
        login(accounts, "ann", "right")
    login(accounts, "ann", "right", host="elsewhere")
    clock.now += 1.5
    login(accounts, "ann", "right")


def test_the_password_of_nobody_lets_nobody_in(tmp_path: Path) -> None:
    lenient = WebAccounts(tmp_path, Passwords(lambda hash, password: True))
    with pytest.raises(PeerFault):
        login(lenient, "nobody", "anything")
    lenient.close()


def test_a_peer_keeps_its_identity(accounts: WebAccounts, tmp_path: Path) -> None:
    again = WebAccounts(tmp_path)
    assert again.identity == accounts.identity
    again.close()
