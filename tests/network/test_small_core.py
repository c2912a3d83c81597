"""A broker and its clients run without the extras: no Numba, no pyarrow, no Spark, no uvloop."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXTRAS = (
    "numba",
    "llvmlite",
    "pyarrow",
    "pyspark",
    "pandas",
    "dd",
    "matplotlib",
    "lxml",
    "re2",
    "uvloop",
    "cryptography",
    "typer",
    "rich",
    "pygments",
)
BLOCKING = f"import sys\nfor name in {EXTRAS!r}:\n    sys.modules[name] = None\n"  # its import then fails


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(BLOCKING)
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "NUMBA_CACHE_DIR")}
    return kept | {"PYTHONPATH": str(tmp_path / "blocked")}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "godwit", *words]


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def broker(environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Any]]:
    listeners = [word for name in ("native", "mqtt", "http") for word in (f"--{name}", "127.0.0.1:0")]
    with (
        (tmp_path / "log").open("w+") as log,
        subprocess.Popen(
            command("serve", *listeners, "--folder", str(tmp_path / "journal"), "--log-format", "json"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            log.seek(0)
            said = log.read()
            assert line, said
            yield json.loads(line) | {"log": said}
        finally:
            process.terminate()


def test_a_broker_listens_and_an_event_arrives(environment: dict[str, str], broker: dict[str, Any]) -> None:
    assert broker["missing"] == {}
    assert {"native", "mqtt", "http"} <= broker.keys()
    lines = [json.loads(line) for line in broker["log"].splitlines()]
    assert [line["kernels"] for line in lines if line["event"] == "matcher"] == [
        "not compiled: Numba is not installed (pip install 'godwit[fast]')"
    ]
    published = run(environment, "pub", "price=4", "--retain", "price", "--broker", broker["native"])
    assert published.returncode == 0, published.stderr
    received = run(environment, "sub", "price < 10", "--retained", "--count", "1", "--broker", broker["native"])
    assert received.returncode == 0, received.stderr
    assert json.loads(received.stdout)["attributes"]["price"] == 4


def test_a_command_that_needs_an_extra_names_it(environment: dict[str, str], tmp_path: Path) -> None:
    done = run(environment, "simulate", "city", "--seed", "1", "--trace", str(tmp_path / "trace"))
    assert done.returncode == 2
    assert done.stderr.strip() == "error: this needs pyarrow, which is not installed: pip install 'godwit[traces]'"
