"""Settings of a peer: defaults, faults with their place, and secrets that others must not read."""

from pathlib import Path

import pytest

from godwit.errors import ConfigurationError
from godwit.teamwork.peer_opening import settings_of
from godwit.teamwork.peer_settings import FILE, PeerSettings, read_settings


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    (folder / FILE).write_text(text)
    (folder / FILE).chmod(mode)
    return folder


def test_a_folder_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == PeerSettings()


def test_what_the_guide_shows_is_read(tmp_path: Path) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "work_together.md"
    text = guide.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    found = read_settings(written(tmp_path, text, 0o644))
    assert found.brokers == ("broker.example.org:7077", "backup.example.org:7077")
    assert (found.listen.announced, found.mail.port) == (("ann.example.org",), 25)
    assert (found.limits.disk_bytes_max, found.limits.versions_kept) == (50_000_000_000, 20)


def test_every_key_is_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "work_together.md").read_text(encoding="utf-8")
    keys = []
    for name in PeerSettings.__struct_fields__:
        section = getattr(PeerSettings(), name)
        keys += [f"{name}.{key}" for key in getattr(section, "__struct_fields__", ())] or [name]
    assert [key for key in keys if f"`{key}`" not in guide] == []


def test_what_is_said_otherwise_goes_before_the_file(tmp_path: Path) -> None:
    written(tmp_path, 'brokers = ["one:1"]\n[listen]\npages = "127.0.0.1:1"\nfiles = "127.0.0.1:2"\n')
    found = settings_of(tmp_path, ["two:2"], "", None)
    assert (found.brokers, found.listen.pages, found.listen.files) == (("two:2",), "", "127.0.0.1:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brokers = 3", r"peer\.toml:1: brokers is 3: allowed is a list"),
        ("[mail]\nport = 0", r"peer\.toml:2: mail\.port is 0: allowed is a whole number from 1 to 65,535"),
        ("[mial]\n", r"mial is not known \(did you mean mail\?\)"),
        ("[limits]\ndisk_bytes_max = -1", r"limits\.disk_bytes_max is -1"),
        ("[limits]\nversions_kept = 0", r"limits\.versions_kept is 0: allowed is a whole number from 1"),
        ("brokers = [", r"peer\.toml: "),
        ("\xff", r"peer\.toml: "),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=said):
        read_settings(tmp_path)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_settings(written(tmp_path, "brokers = 3\n[mail]\nport = 0"))
    assert len(raised.value.faults) == 2


@pytest.mark.parametrize("text", ['[mail]\npassword = "x"', '[broker]\ntoken = "x"', '[broker]\npassword = "x"'])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, text: str) -> None:
    read_settings(written(tmp_path, text))
    with pytest.raises(ConfigurationError, match="holds a secret, and others can read it: chmod 600"):
        read_settings(written(tmp_path, text, 0o644))


@pytest.mark.parametrize("address", ["nowhere", "host:port", ":1", "host:70000"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"listen\.files: .* is not an address: it must be host:port"):
        settings_of(tmp_path, files=address)
