"""Keys of devices: files that are kept safe, signatures that count, a founder that vouches for itself."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from godwit.errors import SecurityError
from godwit.teamwork.device_keys import DeviceKeys, TeamDevices, team_scope
from godwit.teamwork.machine.changes import signed_bytes
from godwit.teamwork.machine.scope_log import ScopeLog
from godwit.teamwork.machine.store import MemoryStore


def a_log(scope: str, keys: DeviceKeys) -> ScopeLog:
    store = MemoryStore()
    return ScopeLog(scope, store, TeamDevices(scope, store, keys))


def enrol(log: ScopeLog, by: DeviceKeys, user: str, keys: DeviceKeys, of: str) -> Any:
    change = log.make(by.device, user, f"device/{keys.device}", {"user": of, **keys.public_fields}, 0.0)
    assert not log.problem(change)
    log.add(change)
    return change


def test_a_key_file_gives_the_same_keys_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    keys, path = DeviceKeys.made("laptop"), tmp_path / "keys.json"
    keys.save(path)
    loaded = DeviceKeys.load(path)
    assert (loaded.device, loaded.public_fields) == (keys.device, keys.public_fields)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SecurityError, match="already exists"):
        DeviceKeys.made("other").save(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "is not a key file"),
        (b"\xff", "is not a key file"),
        (b'{"format":"x","version":1,"device":"d","signing":"","sealing":""}', "this program reads"),
        (b'{"format":"godwit device keys","version":1,"device":"d","signing":"","sealing":""}', "an invalid key"),
    ],
)
def test_a_file_that_is_no_key_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    with pytest.raises(SecurityError, match=said):
        DeviceKeys.load(path)


def test_a_key_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"cannot read .*keys\.json: No such file"):
        DeviceKeys.load(tmp_path / "keys.json")


def test_the_founder_vouches_for_itself_and_for_others() -> None:
    ann, bob = DeviceKeys.made("laptop"), DeviceKeys.made("phone")
    scope = team_scope("ann", ann)
    here, there = a_log(scope, ann), a_log(scope, bob)
    for change in (enrol(here, ann, "ann", ann, "ann"), enrol(here, ann, "ann", bob, "bob")):
        assert not there.problem(change)
        there.add(change)
    profile = there.make(bob.device, "bob", "user/bob", {"name": "Bob"}, 0.0)
    assert not here.problem(profile)


def test_a_founder_with_another_key_is_not_known() -> None:
    ann, eve = DeviceKeys.made("laptop"), DeviceKeys.made("laptop")
    scope = team_scope("ann", ann)
    log = a_log(scope, ann)
    forged = a_log(scope, eve).make(
        eve.device, "ann", f"device/{eve.device}", {"user": "ann", **eve.public_fields}, 0.0
    )
    assert log.problem(forged) == f"device {eve.device} is not known"


def test_a_change_that_was_altered_or_made_in_the_name_of_another_has_a_problem() -> None:
    ann, bob = DeviceKeys.made("laptop"), DeviceKeys.made("phone")
    log = a_log(team_scope("ann", ann), ann)
    enrol(log, ann, "ann", ann, "ann")
    enrol(log, ann, "ann", bob, "bob")
    change = log.make(ann.device, "ann", "user/ann", {"name": "Ann"}, 0.0)
    assert log.problem(replace(change, fields={"name": "Eve"})) == f"no signature of device {ann.device}"
    assert log.problem(replace(change, user="bob")) == f"device {ann.device} belongs to ann, not to bob"
    as_ann = log.make(bob.device, "ann", "user/ann", {"name": "Eve"}, 0.0)
    as_ann = replace(as_ann, signature=bob.signing.sign(signed_bytes(as_ann)))
    assert log.problem(as_ann) == f"device {bob.device} belongs to bob, not to ann"


@pytest.mark.parametrize("key", [None, 7, "", "zz", "00" * 31])
def test_a_device_whose_key_is_none_signs_nothing(key: Any) -> None:
    ann = DeviceKeys.made("laptop")
    log = a_log(team_scope("ann", ann), ann)
    enrol(log, ann, "ann", ann, "ann")
    log.add(log.make(ann.device, "ann", "device/odd", {"user": "ann", "signing": key}, 0.0))
    change = replace(
        log.make(ann.device, "ann", "user/ann", {"name": "Ann"}, 0.0), device="odd", number=1, previous=b""
    )
    assert log.problem(change) in ("device odd is not known", "no signature of device odd")
