"""Keys of devices: the first one seen for a name is kept, lists are checked, and each start is a later life."""

from pathlib import Path

import pytest

from godwit.errors import NotAdmitted, SecurityError
from godwit.runtime.adhoc_keys import AllowedDevice, DeviceFolder, DeviceKey, KnownKeys, is_signed, read_allowed

KEY = "ab" * 32


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = DeviceFolder(tmp_path / "anna")
    key = folder.key()
    assert folder.key().public == key.public
    assert (tmp_path / "anna" / "key.json").stat().st_mode & 0o777 == 0o600
    assert is_signed(key.public, key.sign(b"said"), b"said")
    assert not is_signed(key.public, key.sign(b"said"), b"other")
    assert not is_signed(b"short", key.sign(b"said"), b"said")


def test_each_start_is_a_later_life_whatever_the_clock_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DeviceFolder(tmp_path)
    first = folder.next_life()
    monkeypatch.setattr("godwit.runtime.adhoc_keys.time", lambda: 0.0)
    assert [folder.next_life(), folder.next_life()] == [first + 1, first + 2]


def test_the_first_key_of_a_name_is_kept_also_on_the_disk(tmp_path: Path) -> None:
    folder, ours, others = DeviceFolder(tmp_path), DeviceKey.made().public, DeviceKey.made().public
    known = folder.known()
    known.check("bert", ours, 0.0)
    known.check("bert", ours, 0.0)
    with pytest.raises(NotAdmitted, match="'bert' has another key than the first one that was seen for it"):
        known.check("bert", others, 0.0)
    folder.write_known(known)
    with pytest.raises(NotAdmitted):
        folder.known().check("bert", others, 0.0)


def test_names_have_a_bound_and_strangers_a_rate() -> None:
    known = KnownKeys(names_max=70)
    for number in range(64):
        known.check(f"d{number}", bytes([number]) * 32, 0.0)
    with pytest.raises(NotAdmitted, match="too many devices with new names"):
        known.check("one more", bytes(32), 0.0)
    for number in range(64, 70):
        known.check(f"d{number}", bytes([number]) * 32, 100.0)
    with pytest.raises(NotAdmitted, match="no room for more than 70 names"):
        known.check("one more", bytes(32), 200.0)
    known.check("d1", bytes([1]) * 32, 200.0)


def test_a_list_names_keys_and_bounds_priorities(tmp_path: Path) -> None:
    file = tmp_path / "allowed.toml"
    file.write_text(f'[devices.anna]\nkey = "{KEY}"\npriority_max = 0.5\n')
    allowed = read_allowed(file)
    assert allowed == {"anna": AllowedDevice(KEY, 0.5)}
    known = KnownKeys(allowed=allowed)
    known.check("anna", bytes.fromhex(KEY), 0.0)
    for name, key, why in (("anna", bytes(32), "another key"), ("bert", bytes(32), "not in the list")):
        with pytest.raises(NotAdmitted, match=why):
            known.check(name, key, 0.0)
    assert known.may_have("anna", 0.5)
    assert not known.may_have("anna", 0.6)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[devices.anna]\n", "allowed.toml"),
        ('[devices.anna]\nkey = "12"\n', "devices.anna.key"),
        (f'[devices.anna]\nkey = "{KEY}"\npriority_max = 2\n', "priority_max"),
        (f'[devices.anna]\nkey = "{KEY}"\nrank = 2\n', "rank"),
        ("[devices\n", "is not TOML"),
    ],
)
def test_a_wrong_list_is_refused_with_the_place(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "allowed.toml"
    file.write_text(text)
    with pytest.raises(SecurityError, match=fault):
        read_allowed(file)


@pytest.mark.parametrize("text", ["", "{}", '{"format": "godwit ad hoc key", "version": 9, "key": ""}'])
def test_a_key_file_of_another_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    with pytest.raises(SecurityError, match=r"key\.json"):
        DeviceFolder(tmp_path).key()
