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


RESTARTED = """
import os, sys
from contextlib import suppress
from pathlib import Path
from godwit.errors import JournalError
from godwit.runtime.journal import Journal

folder = Path(sys.argv[1])

def fill():
    with suppress(OSError), (folder / "others").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4_096))

def begin():
    journal = Journal(folder, "b1", "full")
    for number in range(100):
        journal.append(b"%d" % number)

def start():
    fill()
    print(len(list(Journal(folder, "b1", "full").batches(0))), flush=True)

def start_without_reserve():
    (folder / "journal.reserve").unlink()
    fill()
    try:
        Journal(folder, "b1", "full", accept_loss=True)
    except JournalError as error:
        print(error, flush=True)

for each in (begin, start, start_without_reserve):
    if not os.fork():
        try:
            each()
        finally:
            os._exit(9)  # nothing is closed: all is in the write-ahead file
    os.wait()
print(*sorted(each.name for each in folder.iterdir()))
"""


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


def test_a_broker_is_started_on_a_full_disk_and_a_whole_journal_is_not_called_damaged(tmp_path: Path) -> None:
    """SQLite needs room to read a write-ahead file; the journal has some in its reserve."""
    said = on_a_small_disk(tmp_path / "disk", sys.executable, "-c", RESTARTED, str(tmp_path / "disk"))
    batches, refusal, files = said.splitlines()
    assert batches == "100"
    assert refusal.endswith("its disk is full. Free some room, and start again. Nothing was changed")
    assert files == "journal.lock journal.mark journal.sqlite journal.sqlite-wal others"
