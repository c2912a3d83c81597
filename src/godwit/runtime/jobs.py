"""Commands that administrators start from the dashboard: one at a time, in a separate process with resource limits.

*Theory.* A job is a `godwit` command in a fresh folder, run off the event loop by `bounded_command.py`. Its standard
error reports its progress; the files in its folder can be fetched. A finished job is kept until the next begins.

*Rules.*
1. There is one job at a time; a second one is refused while the first one runs.
2. A job is limited: after `SECONDS_MAX`, or when it uses too much memory, processor time or disk, its process group is
   killed.
3. A job gets no secrets: variables of the environment that begin with GODWIT_ are not passed on.
4. Only files of the job's folder are served, by the names in `files`.
5. Nothing is left on the disk when the broker stops.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EFBIG, ENOMEM
from pathlib import Path
from time import monotonic
from typing import Any

__all__ = ["Job", "Jobs"]

MEMORY_BYTES_MAX = 6 * 2**30  # of address space; resident memory is far less
CPU_S_MAX = 600
SECONDS_MAX = 900.0
FILE_BYTES_MAX = 512 * 2**20
NICENESS = 10
LINE_BYTES_MAX = 64 * 2**10
LINES_KEPT = 40
ERROR = "error: "
# Messages of NumPy, the dynamic loader, Python (for silent libraries), and OpenBLAS.
NO_MEMORY = (
    "Unable to allocate",
    "failed to map segment",
    "error return without exception set",
    "pthread_create failed",
)


class Job:
    """One command: its kind, progress and files."""

    def __init__(self, number: int, kind: str, folder: Path) -> None:
        self.number = number
        self.kind = kind
        self.folder = folder
        self.state = "running"  # running, done, failed or stopped
        self.progress = "starting"
        self.done = 0.0
        self.error = ""
        self.began = monotonic()
        self.seconds = 0.0
        self.process: asyncio.subprocess.Process | None = None
        self.task: asyncio.Task[None] | None = None
        self._lines: list[str] = []

    def hear(self, line: str) -> None:
        """A line of its standard error: progress as in `35 % simulating`, or an error."""
        share, percent, word = line.partition(" % ")
        if percent and share.isdigit():
            self.done, self.progress = min(int(share) / 100, 1.0), word
        elif line.strip():
            self._lines = [*self._lines, line][-LINES_KEPT:]

    def end(self, status: int) -> None:
        """The process has ended. Exit status 1 means "no", which is a result."""
        self.seconds = round(monotonic() - self.began, 1)
        if self.state != "running":
            return
        self.state = "done" if status in (0, 1) else "failed"
        if self.state == "failed":
            said = [line.removeprefix(ERROR) for line in self._lines if line.startswith(ERROR)]
            last = "\n".join(said or self._lines[-3:])
            self.error = _bound_met(status, "\n".join(self._lines)) or last or f"the command ended with status {status}"

    @property
    def files(self) -> list[str]:
        """Its output files, by path in its folder, when it has finished."""
        if self.state not in ("done", "failed"):
            return []
        return sorted(str(each.relative_to(self.folder)) for each in self.folder.rglob("*") if each.is_file())

    def told(self) -> dict[str, Any]:
        """The job as plain data."""
        seconds = round(monotonic() - self.began, 1) if self.state == "running" else self.seconds
        return {
            "job": self.number,
            "kind": self.kind,
            "state": self.state,
            "progress": self.progress,
            "done": self.done,
            "seconds": seconds,
            "error": self.error,
            "said": self._lines,
            "files": self.files,
        }


class Jobs:
    """The job of a broker."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self._number = 0

    @property
    def is_running(self) -> bool:
        """Whether one runs now."""
        return self.job is not None and self.job.state == "running"

    def told(self) -> dict[str, Any]:
        """The present or the last job; `state` is "none" if there was none."""
        return {"state": "none", "files": []} if self.job is None else self.job.told()

    async def start(self, kind: str, files: Mapping[str, bytes], words: Sequence[str]) -> dict[str, Any]:
        """Start a command in a folder with these files. The caller has checked that none runs. (rule 1)"""
        assert not self.is_running
        self._forget()
        self._number += 1
        job = self.job = Job(self._number, kind, Path(tempfile.mkdtemp(prefix="godwit-job-")))
        await asyncio.to_thread(_write_files, job.folder, files)
        job.task = asyncio.create_task(self._run(job, words))
        return job.told()

    def stop(self) -> dict[str, Any]:
        """Stop what runs."""
        if self.job is not None and self.job.state == "running":
            self.job.state, self.job.error = "stopped", "stopped"
            _kill(self.job)
        return self.told()

    def file(self, path: str) -> Path | None:
        """A file that the job has written. (rule 4)"""
        return self.job.folder / path if self.job is not None and path in self.job.files else None

    async def close(self) -> None:
        """Stop the running job, and remove its files. (rule 5)"""
        self.stop()
        if self.job is not None and self.job.task is not None:
            with suppress(asyncio.CancelledError):
                await self.job.task
        self._forget()

    async def _run(self, job: Job, words: Sequence[str]) -> None:
        bounds = [str(each) for each in (MEMORY_BYTES_MAX, CPU_S_MAX, FILE_BYTES_MAX, NICENESS)]
        status = -1
        try:
            job.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "godwit.runtime.bounded_command", *bounds, *words),
                cwd=job.folder,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=LINE_BYTES_MAX,
            )
            if job.state != "running":
                _kill(job)  # it was stopped while its process started
            async with asyncio.timeout(SECONDS_MAX):
                await _follow(job)
                status = await job.process.wait()
        except TimeoutError:
            job.state, job.error = "failed", f"it took longer than {SECONDS_MAX:g} s, the limit"
        except OSError as error:
            job.state, job.error = "failed", f"it could not be started: {error}"
        finally:
            _kill(job)
            if job.process is not None:
                await job.process.wait()
            job.end(status)

    def _forget(self) -> None:
        if self.job is not None:
            shutil.rmtree(self.job.folder, ignore_errors=True)
            self.job = None


async def _follow(job: Job) -> None:
    """Read the standard error of a job until it ends."""
    assert job.process is not None
    assert job.process.stderr is not None
    while True:
        try:
            line = await job.process.stderr.readline()
        except ValueError:  # a line that is too long
            continue
        if not line:
            return
        job.hear(line.decode(errors="replace").rstrip("\n"))


def _kill(job: Job) -> None:
    if job.process is not None and job.process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(job.process.pid, signal.SIGKILL)


def _bound_met(status: int, said: str) -> str:
    """The limit that has ended a job, if any. (rule 2)"""
    if status == -signal.SIGXCPU:
        return f"it took more than {CPU_S_MAX} s of processor time, the limit"
    if os.strerror(EFBIG) in said:
        return f"it wrote a file of more than {FILE_BYTES_MAX:,} bytes, the limit"
    if any(each in said for each in (MemoryError.__name__, os.strerror(ENOMEM), *NO_MEMORY)):
        return f"it needed more than {MEMORY_BYTES_MAX:,} bytes of memory, the limit"
    return ""


def _environment() -> dict[str, str]:
    """The environment of a job. (rule 3)"""
    found = {name: value for name, value in os.environ.items() if not name.upper().startswith("GODWIT_")}
    # A killed job must not leave half a compiled module behind.
    return found | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
