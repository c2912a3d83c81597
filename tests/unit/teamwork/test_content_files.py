"""Files by their content: whole or not at all, taken up again, checked, bounded, collected."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random
from time import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import ContentError
from godwit.teamwork import content_drafts
from godwit.teamwork.content_files import ContentFiles, Limits
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from tests.conventions.repository import ROOT
from tests.unit.teamwork.killed_writer import KEY, chunk

PROGRAM = Path(__file__).with_name("killed_writer.py")
LATER = time() + 10**6


def data_of(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ContentFiles]:
    with closing(ContentFiles(tmp_path / "contents")) as opened:
        yield opened


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_is_stored_is_found_by_its_hash(files: ContentFiles, size: int, tmp_path: Path) -> None:
    data = data_of(size)
    (tmp_path / "file").write_bytes(data)
    manifest = files.store(tmp_path / "file")
    assert manifest.name == sha256(data).digest()
    assert (manifest.size, manifest.chunk_count) == (size, -(-size // CHUNK_BYTES))
    assert files.store(BytesIO(data)) == manifest
    assert b"".join(files.chunks(manifest.name)) == data
    assert files.path(manifest.name).read_bytes() == data
    assert (files.names(), files.bytes_used, files.drafts()) == ([manifest.name], size, [])


class Trickle(BytesIO):
    """A stream that gives little at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 70_000))


def test_a_stream_may_give_little_at_a_time(files: ContentFiles) -> None:
    data = data_of(2 * CHUNK_BYTES + 5)
    assert files.store(Trickle(data)) == files.store(BytesIO(data))


@settings(max_examples=15)
@given(order=st.permutations(range(5)), cut=st.integers(0, 5))
def test_chunks_come_in_any_order_and_a_draft_is_taken_up_again(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("drafts")
    data = data_of(4 * CHUNK_BYTES + 99)
    with closing(ContentFiles(folder / "a")) as source, closing(ContentFiles(folder / "b")) as target:
        manifest = source.store(BytesIO(data))
        for numbers in (order[:cut], order[cut:]):
            draft = target.draft("from a", manifest)
            assert draft.missing() == sorted(order[cut:] if numbers == order[cut:] else order)
            for number in numbers:
                draft.put(number, source.chunk(manifest.name, number))
            assert target.bytes_used == draft.bytes_written
            draft.close()
        draft = target.draft("from a")
        assert draft.finish() == manifest
        assert b"".join(target.chunks(manifest.name)) == data


# ------------------------------------------------------------ kills


def test_chunks_that_counted_are_there_after_a_kill(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as writer:
        assert writer.stdout is not None
        assert [int(writer.stdout.readline()) for _ in range(6)] == list(range(6))
        writer.kill()
    with closing(ContentFiles(tmp_path)) as files:
        assert files.names() == []
        draft = files.draft(KEY)
        assert draft.missing() == [6]
        manifest = draft.finish()
        assert b"".join(files.chunks(manifest.name)) == b"".join(map(chunk, range(6)))


def test_chunks_that_the_power_took_are_missing_again(tmp_path: Path) -> None:
    with closing(ContentFiles(tmp_path)) as files:
        draft = files.draft("x")
        for number in range(3):
            draft.put(number, chunk(number))
        draft.close()
        [path] = (tmp_path / "drafts").iterdir()
        with path.open("r+b") as file:
            file.seek(CHUNK_BYTES + 7)
            file.write(b"zeros, as a disk has them")
        again = files.draft("x")
        assert [again.has(number) for number in range(3)] == [True, False, True]
        assert files.bytes_used == again.bytes_written == 2 * CHUNK_BYTES
        again.put(1, chunk(1))
        assert again.finish().name == sha256(b"".join(map(chunk, range(3)))).digest()


def test_a_kill_between_the_name_and_the_row_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(CHUNK_BYTES + 1)
    files = ContentFiles(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(ContentFiles, "add", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            files.store(BytesIO(data), "k")
    files.close()
    with closing(ContentFiles(tmp_path)) as again:
        assert b"".join(again.chunks(sha256(data).digest())) == data
        assert (again.drafts(), again.bytes_used) == ([], len(data))


def fail_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_source_that_changed_since_the_kill_is_stored_as_it_is_now(files: ContentFiles) -> None:
    draft = files.draft("k")
    for number in range(4):
        draft.put(number, chunk(number))
    draft.close()
    now = chunk(0) + chunk(9) + b"end"
    manifest = files.store(BytesIO(now), "k")
    assert b"".join(files.chunks(manifest.name)) == now
    assert files.bytes_used == len(now)


def test_synced_chunks_are_not_read_again(files: ContentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_drafts, "SYNC_CHUNKS", 2)
    draft = files.draft("k")
    for number in range(5):
        draft.put(number, chunk(number))
    draft.close()
    read: list[int] = []
    real = os.pread

    def pread(handle: int, size: int, at: int) -> bytes:
        read.append(at)
        return real(handle, size, at)

    monkeypatch.setattr(os, "pread", pread)
    files.draft("k").close()
    assert read == [4 * CHUNK_BYTES]


def test_zeros_are_a_hole_unless_something_else_is_there(files: ContentFiles) -> None:
    draft = files.draft("k")
    for number in (0, 1):
        draft.put(number, chunk(0))
    [path] = (files.folder / "drafts").iterdir()
    assert path.stat().st_blocks * 512 < CHUNK_BYTES
    draft.put(0, chunk(7))
    draft.put(0, chunk(0))
    assert path.read_bytes() == bytes(2 * CHUNK_BYTES)
    assert draft.finish().name == sha256(bytes(2 * CHUNK_BYTES)).digest()


# ------------------------------------------------------------ lies and damage


def test_a_chunk_that_is_not_the_one_of_the_manifest_is_refused(files: ContentFiles) -> None:
    data = chunk(0) + chunk(1)
    hashes = b"".join(sha256(chunk(number)).digest() for number in range(2))
    draft = files.draft("k", Manifest(sha256(data).digest(), len(data), hashes))
    for number, wrong in ((0, chunk(1)), (1, chunk(1)[:-1]), (2, chunk(2)), (-1, chunk(1))):
        with pytest.raises(ContentError):
            draft.put(number, wrong)
    assert (draft.missing(), files.bytes_used) == ([0, 1], 0)
    with pytest.raises(ContentError, match="2 chunks are missing"):
        draft.finish()


def test_a_false_manifest_is_noticed(files: ContentFiles) -> None:
    draft = files.draft("k", Manifest(sha256(b"true").digest(), 5, sha256(b"false").digest()))
    draft.put(0, b"false")
    with pytest.raises(ContentError, match="the manifest is false"):
        draft.finish()
    assert files.names() == []
    draft.discard()
    assert (files.drafts(), files.bytes_used, list((files.folder / "drafts").iterdir())) == ([], 0, [])


@pytest.mark.parametrize(
    "manifest", [Manifest(b"x", 1, b"y" * 32), Manifest(b"x" * 32, -1, b""), Manifest(b"x" * 32, 1, b"")]
)
def test_a_manifest_that_cannot_be_one_is_refused(files: ContentFiles, manifest: Manifest) -> None:
    with pytest.raises(ContentError, match="manifest"):
        files.draft("k", manifest)
    assert files.drafts() == []


def test_a_manifest_is_told_from_others_by_its_root() -> None:
    one = Manifest(b"x" * 32, 1, b"y" * 32)
    assert len({one.root, one._replace(size=2).root, one._replace(chunks=b"z" * 32).root}) == 3


def test_a_draft_of_another_content_is_refused(files: ContentFiles) -> None:
    files.draft("k", Manifest(b"x" * 32, 1, b"y" * 32)).close()
    with pytest.raises(ContentError, match="'k' is of another content"):
        files.draft("k", Manifest(b"z" * 32, 1, b"y" * 32))


def test_damage_is_noticed_when_it_is_read(files: ContentFiles) -> None:
    manifest = files.store(BytesIO(chunk(0) + chunk(1)))
    with files.path(manifest.name).open("r+b") as file:
        file.seek(CHUNK_BYTES)
        file.write(b"!")
    assert files.chunk(manifest.name, 0) == chunk(0)
    with pytest.raises(ContentError, match=r"chunk 1 of .* is damaged: fetch the file from another peer"):
        files.chunk(manifest.name, 1)
    assert files.damaged_chunks(manifest.name) == [1]


def test_a_content_that_is_not_here_is_named(files: ContentFiles) -> None:
    for ask in (files.open, lambda name: files.chunk(name, 0), lambda name: list(files.chunks(name))):
        with pytest.raises(ContentError, match=r"the content 6161.* is not here"):
            ask(b"a" * 32)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [({1: CHUNK_BYTES}, "chunk 0 is missing"), ({0: 5, 1: CHUNK_BYTES}, "chunk 0 of the draft 'k' is too short")],
)
def test_a_draft_with_a_hole_is_not_finished(files: ContentFiles, sizes: dict[int, int], why: str) -> None:
    draft = files.draft("k")
    for number, size in sizes.items():
        draft.put(number, b"x" * size)
    with pytest.raises(ContentError, match=why):
        draft.finish()


# ------------------------------------------------------------ room


def test_a_full_disk_is_named_and_what_was_stored_stays(files: ContentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = files.store(BytesIO(b"kept"))
    real, room = os.pwrite, [CHUNK_BYTES + 1000]

    def pwrite(handle: int, data: memoryview, at: int) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = real(handle, data[: room[0]], at)
        room[0] -= count
        return count

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(ContentError, match="there is no room on the disk"):
            files.store(BytesIO(chunk(1) + chunk(2)), "k")
        with pytest.raises(ContentError, match="there is no room on the disk"):
            files.store(BytesIO(chunk(1) + chunk(2)))
    assert (files.names(), files.drafts(), files.bytes_used) == ([kept.name], ["k"], 4 + CHUNK_BYTES)
    assert files.draft("k").missing() == [1]
    manifest = files.store(BytesIO(chunk(1) + chunk(2)), "k")
    assert b"".join(files.chunks(manifest.name)) == chunk(1) + chunk(2)


def test_a_content_for_which_the_disk_has_no_room_is_refused_before_it_is_begun(files: ContentFiles) -> None:
    size = 2**43
    with pytest.raises(ContentError, match="no room on the disk for 8,796,093,022,208 bytes"):
        files.draft("k", Manifest(b"x" * 32, size, b"y" * 32 * (size // CHUNK_BYTES)))
    assert files.drafts() == []


def test_limits_hold_for_all_files_and_for_one(files: ContentFiles) -> None:
    files.limits = Limits(bytes_max=2 * CHUNK_BYTES, file_bytes_max=CHUNK_BYTES + 10)
    with pytest.raises(ContentError, match="the file has at least 2,097,152 bytes; 1,048,586 are allowed"):
        files.store(BytesIO(chunk(0) + chunk(1)))
    first = files.store(BytesIO(chunk(0)))
    with pytest.raises(ContentError, match="no room for 1 more bytes: 2,097,152 of 2,097,152 are used"):
        files.store(BytesIO(chunk(1) + b"x"))
    assert (files.names(), files.bytes_used) == ([first.name], CHUNK_BYTES)
    files.store(BytesIO(chunk(1)))


def test_contents_that_nobody_names_are_collected(files: ContentFiles) -> None:
    kept, gone = files.store(BytesIO(b"kept")), files.store(BytesIO(b"gone"))
    opened = files.open(gone.name)
    draft = files.draft("k")
    draft.put(0, b"draft")
    draft.close()
    (files.folder / "drafts" / "stray").write_bytes(b"?")
    assert files.collect([kept.name], stored_before=0.0) == 0
    assert set(files.names()) == {kept.name, gone.name}
    assert files.collect([kept.name], stored_before=LATER, drafts_before=LATER) == 9
    assert (files.names(), files.drafts(), files.bytes_used) == ([kept.name], [], 4)
    assert not files.path(gone.name).exists()
    assert list((files.folder / "drafts").iterdir()) == []
    with opened:
        assert opened.read() == b"gone"


def test_a_draft_that_is_written_is_not_collected(files: ContentFiles) -> None:
    draft = files.draft("k")
    draft.put(0, chunk(0))
    assert files.collect([], stored_before=LATER, drafts_before=LATER) == 0
    draft.put(1, b"end")
    assert draft.finish().size == CHUNK_BYTES + 3


def test_a_draft_stays_for_the_next_attempt_and_counts_as_used_when_it_is_opened(files: ContentFiles) -> None:
    first = files.draft("k")
    first.put(0, chunk(0))
    first.close()
    assert files.collect([], stored_before=LATER) == 0  # contents go sooner than drafts
    between = time()
    second = files.draft("k")
    assert second.has(0)
    second.close()
    assert files.collect([], stored_before=LATER, drafts_before=between) == 0
    assert files.drafts() == ["k"]


def test_a_content_that_is_stored_again_counts_as_new(files: ContentFiles) -> None:
    first = files.store(BytesIO(b"x"))
    between = time()
    files.store(BytesIO(b"x"))
    assert files.collect([], stored_before=between) == 0
    assert first.name in files
