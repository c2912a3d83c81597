"""The user file: what it may hold, how it is changed, and that no secret of it is shown."""

import asyncio
import io
import json
import sys
from pathlib import Path
from threading import Event as Gate
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from godwit.cli.main import app
from godwit.cli.user_command import list_users
from godwit.errors import PeerFault, SecurityError
from godwit.filters.filters import TRUE
from godwit.runtime.users import Passwords, User, Users, hashed, is_right, read_users, with_user

CHEAP: dict[str, Any] = {"rounds": 1, "memory_kib": 8, "lanes": 1}

FILE = """\
# who may come in
[users.ann]
password = "$argon2id$x"
publish = ["kind = 'parking'"]
subscribe = ["*"]

[users."b ob"]  # comes by token
context = { role = "medic" }
"""


def test_a_user_file_is_read() -> None:
    users = read_users(FILE, "users.toml")
    assert users["ann"].publish == ("kind = 'parking'",)
    assert users["b ob"] == User(context={"role": "medic"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[users.ann", "users.toml: "),
        ("[users.ann]\npublsh = []", "unknown field `publsh`"),
        ("[users.ann]\npublish = '*'", "Expected `array`"),
        ("[users.ann]\npassword = 'plain'", "users.ann.password must be an argon2 hash"),
        ("[users.'a/b']", "no slash"),
        ("[users.'$a']", "begins with no $"),
        ("[users.a]\nclients = ['van']\n[users.b]\nclients = ['van']", "users.b.clients: 'van' is another user's"),
        ("[users.a]\nclients = ['b/1']\n[users.b]", "users.a.clients: 'b/1' is another user's"),
        ("[user.a]", "unknown field `user`"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, reason: str) -> None:
    with pytest.raises(SecurityError) as raised:
        read_users(text, "users.toml")
    assert str(raised.value).startswith("users.toml: ")
    assert reason in str(raised.value)
    assert "plain" not in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("publish = ['x <']", "users.ann: line 1, column 4"),
        ("context = { role = 'medic' }", "context has role; this broker asserts: floor"),
        (f"subscribe = {['x = 1'] * 101}", "at most 100 grants"),
        (f"subscribe = ['{'x' * 5_000}']", "4096 characters"),
    ],
)
def test_rights_that_make_no_sense_are_an_error_at_the_start(tmp_path: Path, entry: str, reason: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(f"[users.ann]\n{entry}\n")
    with pytest.raises(SecurityError) as raised:
        Users(path, ("floor",))
    assert reason in str(raised.value)


def test_a_file_that_changes_is_read_again_and_one_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text("[users.ann]\nsubscribe = ['x = 1']\n")
    trouble: list[str] = []
    users = Users(path, on_trouble=trouble.append)
    path.write_text("[users.ann]\nsubscribe = ['*']\n[users.bob]\n")
    entry = users.get("ann")
    assert entry is not None
    assert entry[1].grants.subscribe == TRUE
    path.write_text("[users.")
    assert users.get("bob") is not None
    assert users.get("bob") is not None
    assert len(trouble) == 1
    path.write_text("[users.bob]\n")
    assert users.get("ann") is None


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(SecurityError, match="No such file"):
        Users(Path("no such folder") / "users.toml")


NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=10).filter(
    lambda name: "/" not in name and not name.startswith("$")
)
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3).map(tuple)
USERS = st.builds(
    User,
    publish=TEXTS,
    subscribe=TEXTS,
    context=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-5, 5) | st.booleans()),
    admin=st.booleans(),
    certificate=st.booleans(),
    password=st.just("") | st.just("$argon2id$x"),
)


@given(st.dictionaries(NAMES, USERS, max_size=4), NAMES, USERS)
def test_an_entry_is_put_in_and_taken_out_and_nothing_else_changes(
    others: dict[str, User], name: str, user: User
) -> None:
    text = "# all of them\n"
    for other, entry in others.items():
        text = with_user(text, other, entry, "f")
    assert read_users(text, "f") == others
    put = with_user(text, name, user, "f")
    assert read_users(put, "f") == {**others, name: user}
    out = with_user(put, name, None, "f")
    assert read_users(out, "f") == {other: entry for other, entry in others.items() if other != name}
    assert out.startswith("# all of them\n")


def test_an_entry_that_is_written_in_another_way_is_left_to_its_writer() -> None:
    with pytest.raises(SecurityError, match="cannot be changed here"):
        with_user("users = { ann = { admin = true } }\n", "ann", None, "f")
    assert with_user(FILE, "b ob", None, "f") == FILE[: FILE.index('\n[users."b ob"]')]


def test_the_hash_of_a_password_tells_it_from_others() -> None:
    hash = hashed("secret", **CHEAP)
    assert is_right(hash, "secret")
    assert not is_right(hash, "Secret")
    assert not is_right("$argon2id$nonsense", "secret")
    assert "secret" not in repr(User(password=hash)) + hash
    assert hash not in repr(User(password=hash))
    with pytest.raises(SecurityError):
        hashed("")


def test_a_password_is_tested_once_and_few_are_at_the_same_time() -> None:
    tested: list[str] = []
    gate = Gate()

    def test(hash: str, password: str) -> bool:
        gate.wait(30)
        tested.append(password)
        return password == "right"

    async def scene() -> None:
        passwords = Passwords(test)
        waiting = [asyncio.ensure_future(passwords.is_right("h", f"{n}")) for n in range(66)]
        while passwords._waiting < 66:
            turned = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turned.set_result, None)
            await turned
        with pytest.raises(PeerFault, match="try again"):
            await passwords.is_right("h", "one more")
        gate.set()
        assert not any(await asyncio.gather(*waiting))
        assert await passwords.is_right("h", "right")
        assert passwords.is_known("h", "right")
        assert not passwords.is_known("another hash", "right")
        assert not passwords.is_known("h", "wrong")
        assert not await passwords.is_right("h", "x" * 2_000)
        assert "x" * 2_000 not in tested

    asyncio.run(scene())


def test_the_command_line_adds_lists_checks_and_removes_users(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    runner = CliRunner()

    def run(*words: str, said: str = "") -> tuple[int, str]:
        result = runner.invoke(app, ["user", *words, "--file", str(path)], input=said)
        assert "hunter2" not in result.output
        assert "argon2" not in result.output
        return result.exit_code, result.output if result.exit_code == 2 else result.stdout

    config = tmp_path / "broker.toml"
    config.write_text("[security]\nusers = 'users.toml'\nasserted = ['role']\n")
    status, printed = run(
        *("add", "ann", "--subscribe", "*", "--publish", "kind = 'parking'"),
        *("--context", "role=medic", "--config", str(config)),
        said="hunter2\n",
    )
    assert status == 0
    assert json.loads(printed)["subscribe"] == ["*"]
    assert path.stat().st_mode & 0o077 == 0
    assert "hunter2" not in path.read_text()
    assert run("check", "ann", said="hunter2\n")[0] == 0
    assert run("check", "ann", said="hunter3\n")[0] == 1
    assert run("check", "bob", said="hunter2\n")[0] == 1
    assert run("add", "bob", "--no-password", "--certificate", "--client", "van 7")[0] == 0
    status, printed = run("list")
    assert [json.loads(line)["user"] for line in printed.splitlines()] == ["ann", "bob"]
    assert run("remove", "ann")[0] == 0
    assert run("remove", "ann")[0] == 1
    status, printed = run("add", "eve", "--publish", "x <")
    assert status == 2
    assert "user eve: line 1" in printed
    assert run("add", "eve", "--context", "[1]")[0] == 2
    assert "--config FILE" in run("add", "eve", "--context", "role=x")[1]
    status, printed = run("add", "eve", "--context", "rank=1", "--config", str(config))
    assert (status, "security.asserted of" in printed) == (2, True)
    assert run("add", "a/b", "--no-password")[0] == 2
    assert run("add", "eve", "--no-password", "--client", "bob/1")[0] == 2
    assert list(read_users(path.read_text(), "f")) == ["bob"]
    for path, content in ((tmp_path, b""), (tmp_path / "odd.toml", b"\xff\xfe")):
        if content:
            path.write_bytes(content)
        status, printed = run("add", "eve", "--no-password")
        assert (status, printed.startswith(f"error: {path}: ")) == (2, True)


def test_what_is_no_filter_is_said_without_asking_a_broker() -> None:
    for words in (["((("], ["x = 1", "--sender", "(("]):
        result = CliRunner().invoke(app, ["sub", *words, "--broker", "127.0.0.1:1"])
        assert result.exit_code == 2
        assert result.output.startswith("error: line 1, column")


def test_a_list_for_people_shows_brackets_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users.toml"
    path.write_text("[users.'[b]ann']\npublish = [\"x = '[/red]'\"]\n")
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", screen)
    list_users(path)
    assert "[b]ann" in screen.getvalue()
    assert "x = '[/red]'" in screen.getvalue()


def test_users_are_changed_and_never_replaced_silently(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"

    def run(*words: str, said: str = "") -> tuple[int, str]:
        result = CliRunner().invoke(app, ["user", *words, "--file", str(path)], input=said)
        return result.exit_code, result.output

    def ann() -> User:
        return read_users(path.read_text(), "f")["ann"]

    status, printed = run("add", "ann", said="\n")
    assert (status, "a password has 1 to" in printed, "weak" in printed) == (2, True, False)
    status, printed = run("add", "ann", said="short\n")
    assert status == 0
    assert "this password is weak: it has 5 characters" in printed
    assert "may neither publish nor subscribe" in printed
    status, printed = run("grant", "ann", "--publish", "a = 1", "--subscribe", "b = 1", "--subscribe", "c = 1")
    assert (status, "warning" in printed) == (0, False)
    before = ann()
    status, printed = run("add", "ann", said="another password\n")
    assert (status, "exists already" in printed) == (2, True)
    assert ann() == before
    assert run("revoke", "ann", "--subscribe", "d = 1")[0] == 2
    assert run("revoke", "ann", "--subscribe", "b = 1")[0] == 0
    assert (ann().publish, ann().subscribe) == (("a = 1",), ("c = 1",))
    assert run("set", "ann", "--admin", "--client", "van-7")[0] == 0
    assert (ann().admin, ann().clients, ann().password) == (True, ("van-7",), before.password)
    status, printed = run("passwd", "ann", said="a much longer one\n")
    assert (status, "weak" in printed) == (0, False)
    assert ann().password != before.password
    assert ann().subscribe == ("c = 1",)
    assert run("revoke", "ann", "--all")[0] == 0
    assert (ann().publish, ann().subscribe) == ((), ())
    assert run("add", "ann", "--no-password", "--replace")[0] == 0
    assert (ann().admin, ann().password) == (False, "")
    assert run("set", "ben", "--admin")[0] == 2
    assert run("grant", "ann", "--publish", "x <")[0] == 2
