"""Brokers in processes of their own: Godwit's, and its peers where they are installed; and what they work and take.

Each stands under a guard (`network_guard.py`), so that it is stopped and its folder removed whatever happens here.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.workloads import ROOT
from godwit.mqtt import MqttSettings

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
START_S_MAX = 60.0
LOAD_S_MAX = 240.0
IN_FLIGHT = MqttSettings().in_flight_max  # deliveries of QoS 1 under way to a client; peers get the same bound
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one in the path changes user and environment


class Failed(Exception):
    """A process that did not do what it was for."""


class Usage:
    """What the processes of a group have worked, and hold in memory."""

    def __init__(self, group: int) -> None:
        self._folders = [folder for folder in Path("/proc").glob("[0-9]*") if _group_of(folder) == group]

    def cpu_s(self) -> float:
        """The time that they have worked."""
        return sum(int(fields[11]) + int(fields[12]) for fields in map(_stat, self._folders) if fields) / TICKS

    def memory_bytes(self) -> int:
        """What is resident."""
        return sum(int(fields[21]) for fields in map(_stat, self._folders) if fields) * PAGE


class Clock:
    """Beside the time, what a broker worked meanwhile, and what share of it we did."""

    def __init__(self, usage: Usage) -> None:
        self._usage, self._cpu_s = usage, usage.cpu_s()
        self._wall, self._own = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Since it was made: `seconds`, `cpu_s` of the broker, and `generator`, 1.0 when we did nothing but work."""
        seconds, own = time.perf_counter() - self._wall, time.process_time() - self._own
        return {"seconds": seconds, "cpu_s": self._usage.cpu_s() - self._cpu_s, "generator": own / seconds}


def _stat(folder: Path) -> list[str]:
    """The fields after the command's name."""
    try:
        return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _group_of(folder: Path) -> int:
    fields = _stat(folder)
    return int(fields[2]) if fields else -1


class Running(NamedTuple):
    """A broker at work: its group of processes, and its ports by protocol."""

    group: int
    ports: dict[str, int]

    def load(self, job: str, protocol: str, **details: Any) -> dict[str, float]:
        """Run a job of a load generator against it."""
        said = {"job": job, "port": self.ports[protocol], "group": self.group, **details}
        script = "network_load.py" if protocol == "native" else "network_streams.py"
        command = [sys.executable, str(ROOT / "benchmarks" / script), json.dumps(said)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment(), timeout=LOAD_S_MAX
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"the load generator has not come to an end within {LOAD_S_MAX:.0f} s") from None
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or ["the load generator has failed"])[-1])
        found: dict[str, float] = json.loads(done.stdout)
        return found


def environment() -> dict[str, str]:
    """For processes that use Godwit."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


@contextmanager
def guarded(folder: Path, command: list[str], environ: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A command under its guard, which removes the folder at the end."""
    with subprocess.Popen(
        [sys.executable, str(ROOT / "benchmarks" / "network_guard.py"), str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if environ.get("QUIET") else None,
        text=True,
        env=environ,
        start_new_session=True,
    ) as guard:
        try:
            yield guard
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            guard.wait(60)


@contextmanager
def godwit(durability: str = "memory", *, name: str = "b1", **details: Any) -> Iterator[Running]:
    """A broker of Godwit that has just been started."""
    folder = Path(tempfile.mkdtemp(prefix="godwit-bench-"))
    said = {"name": name, "durability": durability, "folder": str(folder), "port": 0, "neighbours": {}, **details}
    command = [sys.executable, str(ROOT / "benchmarks" / "network_broker.py"), json.dumps(said)]
    with guarded(folder, command, environment()) as guard:
        assert guard.stdout is not None
        group, ports = guard.stdout.readline(), guard.stdout.readline()
        if not ports:
            raise Failed("Godwit's broker did not start")
        yield Running(int(group), json.loads(ports))


# ---------------------------------------------------------------- peers


def _free_ports(count: int) -> list[int]:
    """Ports that are free at present."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Start(NamedTuple):
    """How a peer is started."""

    protocol: str
    port: int
    command: list[str]
    environ: dict[str, str]


def _mosquitto(folder: Path) -> Start:
    (port,) = _free_ports(1)
    said = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence false", "log_type none"]
    said += ["max_queued_messages 0", f"max_inflight_messages {IN_FLIGHT}", "set_tcp_nodelay true"]
    if os.getuid() == 0:
        said.append("user root")
    (folder / "mosquitto.conf").write_text("\n".join(said) + "\n", encoding="utf-8")
    return Start("mqtt", port, ["mosquitto", "-c", "mosquitto.conf"], {})


def _nats(folder: Path) -> Start:
    (port,) = _free_ports(1)
    return Start("nats", port, ["nats-server", "-a", "127.0.0.1", "-p", str(port)], {})


def _rabbitmq(folder: Path) -> Start:
    """With a port mapper of its own, that goes when it goes."""
    port, distribution, mapper = _free_ports(3)
    script = str(RABBITMQ_SCRIPT) if RABBITMQ_SCRIPT.exists() else "rabbitmq-server"
    (folder / "plugins").write_text("[].\n", encoding="utf-8")
    (folder / "rabbitmq.conf").write_text("disk_free_limit.absolute = 50MB\n", encoding="utf-8")
    environ = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    return Start(
        "amqp", port, ["sh", "-c", f"epmd -port {mapper} -address 127.0.0.1 & exec {script} >/dev/null"], environ
    )


PEERS: dict[str, tuple[str, Callable[[Path], Start]]] = {
    "Mosquitto": ("mosquitto", _mosquitto),
    "NATS": ("nats-server", _nats),
    "RabbitMQ": ("rabbitmq-server", _rabbitmq),
}


def server_path() -> str:
    """Where servers are, too, though a user's path may not name it."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"])


def missing_peers() -> list[str]:
    """Those that are not installed."""
    return [name for name, (program, _) in PEERS.items() if shutil.which(program, path=server_path()) is None]


@contextmanager
def peer(name: str) -> Iterator[Running]:
    """A peer that has just been started."""
    folder = Path(tempfile.mkdtemp(prefix="godwit-bench-"))
    start = PEERS[name][1](folder)
    environ = {**os.environ, "PATH": server_path(), "QUIET": "1", **start.environ}
    with guarded(folder, start.command, environ) as guard:
        assert guard.stdout is not None
        group, ends = int(guard.stdout.readline()), time.monotonic() + START_S_MAX
        while not answers(start.port):
            if guard.poll() is not None or time.monotonic() > ends:
                raise Failed(f"{name} did not start")
            time.sleep(0.1)
        yield Running(group, {start.protocol: start.port})


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
