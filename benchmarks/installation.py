"""What it takes to install Godwit and to have a broker that does nothing: disk, seconds, memory, beside other brokers.

The wheel is built from this checkout and installed into new environments: without extras, and with `fast`. Each process
is started several times, and the least is taken. A broker is ready when it says so or its port answers; its memory is
what `/proc` has as resident, two seconds after that.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.network_processes import PEERS, answers, server_path
from benchmarks.workloads import ROOT

PACKAGES = {"Mosquitto": "mosquitto", "NATS": "nats-server"}
SETTLED_S = 2.0
START_S_MAX = 120.0
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
IMPORT = "import time; t = time.perf_counter(); import godwit; godwit.connect; print(time.perf_counter() - t)"
IMPORT += "; print(next(line for line in open('/proc/self/status') if line.startswith('VmRSS')).split()[1])"
MATCHING = """
import statistics, sys, time
sys.path.insert(0, sys.argv[1])
from benchmarks.own_workload import growing_workload
from godwit.matching.index_matcher import IndexMatcher
made, index, times = growing_workload(10_000, 500), IndexMatcher(), []
index.add_many(made.filters())
for event in made.events():
    start = time.perf_counter()
    index.match(event)
    times.append(time.perf_counter() - start)
times = sorted(times[100:])
print(statistics.median(times) * 1e3, times[int(0.99 * len(times))] * 1e3)
"""


def installed(folder: Path, extras: str) -> tuple[Path, float, float]:
    """A new environment with the wheel: its Python, and megabytes of the wheel and of all libraries."""
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, home = folder / "wheels", folder / (extras or "core")
    if not wheels.exists():
        run([sys.executable, *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT)])
    (wheel,) = wheels.glob("*.whl")
    pins = re.findall(
        r"^([\w.-]+==.*[^ \\]) *\\$", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    (folder / "constraints.txt").write_text("\n".join(pins), encoding="utf-8")
    run([sys.executable, "-m", "venv", str(home)])
    python = home / "bin" / "python"
    named = f"{wheel}[{extras}]" if extras else str(wheel)
    run([str(python), *pip, "install", "-c", str(folder / "constraints.txt"), named])
    (packages,) = home.glob("lib/*/site-packages")
    ours = [each for each in packages.iterdir() if not each.name.startswith(NOT_OURS)]
    return python, wheel.stat().st_size / 1e6, sum(map(size_of, ours)) / 1e6


def size_of(path: Path) -> int:
    """Bytes on the disk."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_blocks * 512 for each in files)


def run(command: list[str], **more: Any) -> str:
    """What a command prints."""
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=True, capture_output=True, text=True, **more)
    return done.stdout


def memory_mb(pid: int) -> float:
    """What is resident of a process."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


def started(command: list[str], folder: Path, port: int | None) -> tuple[float, float]:
    """Seconds until a broker listens, and its megabytes then; without a port it prints a line when it does."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PATH": server_path()},
    ) as process:
        assert process.stdout is not None
        if port is None:
            process.stdout.readline()
        while port is not None and not answers(port) and time.perf_counter() - began < START_S_MAX:
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        time.sleep(SETTLED_S)
        megabytes = memory_mb(process.pid)
        process.terminate()
    return seconds, megabytes


def godwit_rows(folder: Path, extras: str, repeat: int) -> Iterator[dict[str, Any]]:
    """The figures of Godwit with these extras."""
    python, wheel_mb, disk_mb = installed(folder, extras)
    name = f"Godwit with {extras}" if extras else "Godwit"
    serve = [str(python), "-m", "godwit", "serve", "--durability", "memory"]
    serve += [word for listener in ("native", "mqtt", "http") for word in (f"--{listener}", "127.0.0.1:0")]
    started(serve, folder, None)  # compiles kernels and modules
    imports = [[float(each) for each in run([str(python), "-c", IMPORT]).split()] for _ in range(repeat)]
    median_ms, p99_ms = map(float, run([str(python), "-c", MATCHING, str(ROOT)]).split())
    seconds, megabytes = map(min, zip(*(started(serve, folder, None) for _ in range(repeat)), strict=True))
    yield {
        "broker": name,
        "wheel_mb": wheel_mb,
        "disk_mb": disk_mb,
        "import_s": min(each[0] for each in imports),
        "import_mb": min(each[1] for each in imports) * 1024 / 1e6,
        "listening_s": seconds,
        "idle_mb": megabytes,
        "match_median_ms": median_ms,
        "match_p99_ms": p99_ms,
    }


def peer_rows(folder: Path, repeat: int) -> Iterator[dict[str, Any]]:
    """The figures of other brokers that are installed."""
    for name, package in PACKAGES.items():
        if shutil.which(PEERS[name][0], path=server_path()) is None:
            print(f"{name} is not installed, and is left out (apt install {package})", file=sys.stderr)
            continue
        runs = []
        for _ in range(repeat):
            start = PEERS[name][1](folder)
            runs.append(started(start.command, folder, start.port))
        kilobytes = run(["dpkg-query", "-W", "-f", "${Installed-Size}", package])
        seconds, megabytes = map(min, zip(*runs, strict=True))
        yield {"broker": name, "disk_mb": int(kilobytes) * 1024 / 1e6, "listening_s": seconds, "idle_mb": megabytes}


def main(repeat: Annotated[int, typer.Option(min=1, help="Runs of which the least is taken.")] = 3) -> None:
    """Measure an installation and an idle broker, beside Mosquitto and NATS. Prints JSON lines."""
    machine = this_machine()
    with tempfile.TemporaryDirectory(prefix="godwit-bench-") as made:
        folder = Path(made)
        for rows in (godwit_rows(folder, "", repeat), godwit_rows(folder, "fast", repeat), peer_rows(folder, repeat)):
            for row in rows:
                rounded = {key: value if isinstance(value, str) else round(value, 3) for key, value in row.items()}
                print(json.dumps({**rounded, "commit": machine.commit, "machine": str(machine)}), flush=True)


if __name__ == "__main__":
    typer.run(main)
