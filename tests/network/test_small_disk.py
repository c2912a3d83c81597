"""A journal that fills its own disk makes room by itself: the broker goes on, and nothing that it took is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import slow

EVENTS = 12_000  # of two kilobytes: twice what the disk holds
SIZE = "12m"
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'


def on_a_small_disk(folder: Path, *command: str) -> str:
    """What a command says that sees a small file system there, and nobody else does."""
    folder.mkdir()
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh", SIZE, str(folder)]
    try:
        probe = subprocess.run([*words, "true"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if probe.returncode:
        pytest.skip(f"no small file system can be mounted here: {probe.stderr.decode().strip()}")
    done = subprocess.run([*words, *command], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("durability", [slow("relaxed"), "full"])
def test_a_broker_whose_journal_fills_the_disk_makes_room_and_goes_on(tmp_path: Path, durability: str) -> None:
    program = [sys.executable, "-m", "tests.network.small_disk_broker"]
    said = json.loads(on_a_small_disk(tmp_path / "disk", *program, str(tmp_path / "disk"), durability, str(EVENTS)))
    assert (said["accepted"], said["kept"]) == (EVENTS, EVENTS)
    assert all("full" in trouble for trouble in said["troubles"])
