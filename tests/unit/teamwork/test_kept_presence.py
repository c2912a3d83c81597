"""What is known of who is here survives the end of a peer."""

from pathlib import Path

from godwit.teamwork.kept_presence import KeptPresence
from godwit.teamwork.machine.bus import Here
from godwit.teamwork.machine.presence import Heard
from godwit.teamwork.repository import Repository


def test_what_devices_said_is_kept_and_forgotten(tmp_path: Path) -> None:
    here = Here("d1", "ann", "busy", 1800.0, "in a review", asks=1, signature=bytes(range(64)))
    said = {"d1": Heard("ann", 1700.0, here, is_for_all=True), "d2": Heard("bob", 1800.0, None)}
    repository = Repository(tmp_path)
    for device, heard in said.items():
        KeptPresence(repository.settings).put(device, heard)
    KeptPresence(repository.settings).put("d3", said["d1"])
    repository.close()
    repository = Repository(tmp_path)
    kept = KeptPresence(repository.settings)
    kept.put("d3", None)
    assert dict(kept.heard()) == said
    repository.close()


def test_other_settings_are_not_taken_for_presence(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.settings.put("presence", 1)
    repository.settings.put("team.scopes", ["x"])
    assert list(KeptPresence(repository.settings).heard()) == []
    repository.close()
