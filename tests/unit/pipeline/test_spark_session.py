"""Who interrupts the launch of the JVM leaves no process behind; a master that is none is refused before it."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.errors import PipelineError
from godwit.pipeline import spark_session

AT_LAST_S = 30.0
LAUNCHER = """\
#!/bin/sh
sleep 1000 &
echo $$ $! >{pids}
kill -INT {us}
exec sleep 1000
"""


def launcher(folder: Path) -> Path:
    """A home of Spark whose launcher begins another process, interrupts us, and would then run for long."""
    script = folder / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(LAUNCHER.format(pids=folder / "pids", us=os.getpid()))
    script.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def default_interrupts() -> Iterator[None]:
    """An interrupt is a `KeyboardInterrupt`, whatever tests before in this process have made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ends(pid: int) -> bool:
    """Whether a process ends; it is given a while, for who is killed ends when the kernel gets to it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], AT_LAST_S)[0])
    finally:
        os.close(process)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="it looks at processes as Linux shows them")
def test_who_interrupts_the_launch_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_gateway = pytest.importorskip("pyspark.java_gateway")
    monkeypatch.setenv("SPARK_HOME", str(launcher(tmp_path)))
    before = java_gateway.Popen
    with pytest.raises(KeyboardInterrupt), spark_session._ending_when_interrupted():
        java_gateway.launch_gateway()
    assert java_gateway.Popen is before
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(map(ends, pids))


def test_an_interrupt_while_a_process_begins_comes_when_it_is_known() -> None:
    known = []

    def begin() -> None:
        with spark_session._interrupted_later():
            signal.raise_signal(signal.SIGINT)
            known.append(True)

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert known
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[1]", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:6443"),
        *("spark://host:7077", "spark://a:7077,b:7077", "other://host"),
    ],
)
def test_a_master_is_a_master_url(master: str) -> None:
    spark_session.check_master(master)


@pytest.mark.parametrize(
    "master", ["nonsense", "", "local[0]", "local[]", "localhost:7077", "spark://host", "Local[2]"]
)
def test_what_is_no_master_url_is_refused_before_spark_starts(master: str) -> None:
    with pytest.raises(PipelineError, match=r"not a master URL; allowed are local\[2\], .*spark://HOST:PORT"):
        spark_session.start(master)
