"""Jobs of the dashboard: each bound ends a job, names itself, and leaves nothing behind."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from godwit.runtime import jobs
from godwit.runtime.jobs import Jobs

LONG = ["simulate", "--swarm", "100000", "--seed", "1"]
TRACE = ["simulate", "city", "--trace", "run"]


async def ended(words: Sequence[str]) -> dict[str, Any]:
    """Run a job to its end, and close."""
    some = Jobs()
    await some.start("test", {}, words)
    assert some.job is not None
    assert some.job.task is not None
    await some.job.task
    told = some.told()
    folder = some.job.folder
    await some.close()
    assert not folder.exists()
    return told


@pytest.mark.parametrize(
    ("bound", "most", "words", "said"),
    [
        ("SECONDS_MAX", 0.5, LONG, "longer than 0.5 s"),
        ("CPU_S_MAX", 1, LONG, "more than 1 s of processor time"),
        ("MEMORY_BYTES_MAX", 150 * 2**20, LONG, "bytes of memory"),
        ("FILE_BYTES_MAX", 1_000, TRACE, "a file of more than 1,000 bytes"),
    ],
)
def test_a_bound_ends_a_job_and_is_named(
    bound: str, most: float, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, bound, most)
    told = asyncio.run(ended(words))
    assert told["state"] == "failed"
    assert said in told["error"]


@pytest.mark.parametrize(
    "lines",
    [
        ["error: SystemError: error return without exception set"],
        ["Exception ignored on building sys.unraisablehook arguments:", "MemoryError", "error: ImportError: "],
        ["error: OSError: [Errno 12] Cannot allocate memory: '/somewhere'"],
    ],
)
def test_a_job_without_memory_is_known_by_any_of_its_words(lines: list[str], tmp_path: Path) -> None:
    job = jobs.Job(1, "test", tmp_path)
    for line in lines:
        job.hear(line)
    job.end(70)
    assert "bytes of memory" in job.error


def test_a_job_that_keeps_within_bounds_gives_its_files() -> None:
    async def scene() -> None:
        some = Jobs()
        await some.start("test", {"note.txt": b"kept"}, ["filter", "check", "speed > 5"])
        assert some.job is not None
        assert some.job.task is not None
        await some.job.task
        assert some.told()["state"] == "done"
        path = some.file("note.txt")
        assert path is not None
        assert await asyncio.to_thread(path.read_bytes) == b"kept"
        assert some.file(str(Path("..") / "note.txt")) is None
        await some.close()

    asyncio.run(scene())
