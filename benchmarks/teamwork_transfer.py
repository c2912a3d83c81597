"""How fast a file goes from one peer to another on this machine, beside `curl` from nginx in the same run.

The peers are two processes, and so are curl and nginx. All may use every core. The file is in the memory of the system
before it is given; what is fetched is written to a file. On the disk, time ends when the file is synced, for both: a
peer never says that it has a file before that. In memory (`/dev/shm`) there is no disk to wait for.

A peer does more than curl: it hashes each byte twice (its chunk, and the whole), and writes down each chunk.

Without nginx, Python's own `http.server` is what curl reads from; the note of each row says so.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.reporting import Anchor, Row
from benchmarks.teamwork_transfer_peers import GIVER, TEAM, Told, make_keys
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.file_source import Source
from godwit.teamwork.manifests import CHUNK_BYTES

__all__ = ["FULL_TRANSFER", "Transfer", "TransferScale", "transfer_rows"]

MEMORY = Path("/dev/shm")
PEERS = Path(__file__).with_name("teamwork_transfer_peers.py")
BLOCK = 2**20
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; tcp_nopush on; default_type application/octet-stream;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""

Log = Callable[[str, float], None]


class TransferScale(msgspec.Struct, frozen=True):
    """How large everything is."""

    size: int = 10**9
    rounds: int = 5
    is_full: bool = True


FULL_TRANSFER = TransferScale()


# ------------------------------------------------------------ the measurement


def transfer_rows(scale: TransferScale, log: Log) -> Iterator[Row]:
    """Rows of the part `transfer`."""
    with every_core():
        if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * scale.size:
            with TemporaryDirectory(prefix="godwit-bench-", dir=MEMORY) as scratch:
                yield from Transfer(Path(scratch), scale, log, is_synced=False).rows("memory")
        with TemporaryDirectory(prefix="godwit-bench-") as scratch:
            transfer = Transfer(Path(scratch), scale, log, is_synced=True)
            yield from transfer.rows("disk")
            yield transfer.resumed()


@contextmanager
def every_core() -> Iterator[None]:
    """Let this process, and those that it starts, use every core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Transfer:
    """A folder with a file to give, and what it takes to fetch it."""

    def __init__(self, folder: Path, scale: TransferScale, log: Log, *, is_synced: bool) -> None:
        self._folder, self._scale, self._log, self._is_synced = folder, scale, log, is_synced
        (folder / "www").mkdir()
        block = os.urandom(BLOCK)
        with (folder / "www/file").open("wb") as file:
            for number in range(-(-scale.size // BLOCK)):
                file.write((number.to_bytes(8, "big") + block[8:])[: scale.size - number * BLOCK])
        make_keys(folder)
        with closing(ContentFiles(folder / GIVER)) as files:
            manifest = files.store(folder / "www/file")
        self._wanted = WantedFile(TEAM, "artefact/1", manifest.name, manifest.root)

    def rows(self, where: str) -> Iterator[Row]:
        """Our rate, and that beside curl's."""
        ours, theirs, cpu = [], [], []
        with self.giving() as source, self.web_server() as (url, server):
            for number in range(self._scale.rounds):
                self._log(f"transfer: {where}, round {number}", number / self._scale.rounds)
                theirs.append(self.curl(url))
                wall, process = self.fetched(source)
                ours.append(wall)
                cpu.append(process)
        rate, peer_rate = (self._scale.size / 1e6 / median(seconds) for seconds in (ours, theirs))
        end = "synced" if self._is_synced else "without a disk"
        what = f"{self._scale.size / 1e9:g} GB from peer to peer on loopback, {where} ({end})"
        note = f"median of {self._scale.rounds} rounds; the fetching peer used {median(cpu):.2f} s of the processor"
        yield Row(
            f"transfer-{where}", what, rate, "MB/s", Anchor(300.0), is_full=self._scale.is_full, note=note
        )  # fmt: skip
        note = f"curl from {server}: {peer_rate:,.0f} MB/s, in turn with ours"
        yield Row(
            f"transfer-{where}-ratio", f"{what}, beside curl", rate / peer_rate, "x", Anchor(0.7),
            is_full=self._scale.is_full, note=note,
        )  # fmt: skip

    def resumed(self) -> Row:
        """Kill a fetch in the middle, and see what is lost of what had counted."""
        half = self._scale.size // CHUNK_BYTES // 2
        folder = self._folder / "killed"
        counted = 0
        with self.giving() as source:
            with self._started("fetch", self._told(folder, source), "--progress") as process:
                assert process.stdout is not None
                while counted < half:
                    counted = int(process.stdout.readline().split()[1])
                process.kill()
            with closing(ContentFiles(folder)) as files:
                draft = files.draft(f"fetch {self._wanted.root.hex()}")
                lost = max(0, counted - draft.bytes_written // CHUNK_BYTES)
                draft.close()
            self._run("fetch", self._told(folder, source))
        return Row(
            "transfer-resume", "chunks that had counted and were lost by SIGKILL in mid-transfer", lost, "chunks",
            Anchor(0.0), at_most=True, is_full=self._scale.is_full,
            note=f"killed after {counted} chunks; what was in flight is less than a chunk of each connection",
        )  # fmt: skip

    # ------------------------------------------------------------ processes

    @contextmanager
    def _started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        command = [sys.executable, str(PEERS), str(self._folder), *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise

    def _run(self, *arguments: str) -> list[float]:
        with self._started(*arguments) as process:
            out, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the process that was to {arguments[0]} ended with {process.returncode}")
        return [float(each) for each in out.split()]

    @contextmanager
    def giving(self) -> Iterator[Source]:
        """A peer that gives the file."""
        with self._started("give") as process:
            assert process.stdout is not None
            assert process.stdin is not None
            yield msgspec.json.decode(process.stdout.readline(), type=Source)
            process.stdin.close()

    def _told(self, folder: Path, source: Source) -> str:
        return msgspec.json.encode(Told(str(folder), source, self._wanted)).decode()

    def fetched(self, source: Source) -> tuple[float, float]:
        """The seconds that a fetch takes, and those of the processor."""
        target = self._folder / "fetched"
        wall, cpu = self._run("fetch", self._told(target, source))
        shutil.rmtree(target)
        return wall, cpu

    @contextmanager
    def web_server(self) -> Iterator[tuple[str, str]]:
        """A well-known server of the same file: its address and its name."""
        port = _free_port()
        url = f"http://127.0.0.1:{port}/file"
        if nginx := shutil.which("nginx"):
            settings = self._folder / "nginx.conf"
            settings.write_text(NGINX.format(folder=self._folder, port=port))
            command, name = [nginx, "-c", str(settings)], "nginx"
            (self._folder / "www").chmod(0o755)
            self._folder.chmod(0o755)
        else:
            command = [
                sys.executable,
                "-m",
                "http.server",
                str(port),
                "-b",
                "127.0.0.1",
                "-d",
                str(self._folder / "www"),
            ]
            name = "http.server of Python, since nginx is not installed"
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                check = ["curl", "-sfI", "--retry", "50", "--retry-connrefused", "--retry-delay", "0", url]
                subprocess.run(check, check=True, stdout=subprocess.DEVNULL)
                yield url, name
            finally:
                server.terminate()

    def curl(self, url: str) -> float:
        """The seconds that curl takes for the same file."""
        target = self._folder / "curled"
        begin = time.perf_counter()
        subprocess.run(["curl", "-sf", "-o", str(target), url], check=True)
        if self._is_synced:
            with target.open("rb") as file:
                os.fsync(file.fileno())
        seconds = time.perf_counter() - begin
        assert target.stat().st_size == self._scale.size
        target.unlink()
        return seconds


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
