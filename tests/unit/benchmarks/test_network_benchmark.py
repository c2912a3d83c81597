"""The generator of `benchmarks/network.py` counts right, and what it starts does not outlive it. No figure counts."""

import json
import os
import select
import socket
import subprocess
import sys

import pytest

from benchmarks import network_amqp, network_guard
from benchmarks.measuring import Machine
from benchmarks.network_processes import godwit
from benchmarks.network_reporting import Line, Measured, json_line, print_table
from benchmarks.network_streams import Connection, mqtt_publish

MACHINE = Machine("A chip", 2, "3.11", "2", "0", "abc")
SIZES = (1, 2, 7, 100, 131, 500)


def pieces(data: bytes) -> list[bytes]:
    """Cut at places that fall on no border."""
    cut: list[bytes] = []
    at = 0
    while at < len(data):
        size = SIZES[len(cut) % len(SIZES)]
        cut.append(data[at : at + size])
        at += size
    return cut


@pytest.mark.parametrize("qos", [0, 1])
def test_deliveries_are_counted_and_acknowledged_however_they_are_cut(qos):
    packets = [mqtt_publish("news", qos, number, bytes(120)) for number in (1, 255, 256, 65_535, 7)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        id_at = len(packets[0]) - 122 if qos else -1
        connection, buffer = Connection(ours, len(packets[0]), id_at, 0x30 | qos << 1), memoryview(bytearray(1_000))
        count = 0
        for piece in pieces(b"".join(packets)):
            theirs.sendall(piece)
            count += connection.hear(buffer)
        assert count == len(packets)
        assert connection.is_between
        theirs.setblocking(False)
        if qos:
            answers = b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in (1, 255, 256, 65_535, 7))
            assert theirs.recv(1_000) == answers


def test_what_is_no_delivery_is_noticed():
    packet = mqtt_publish("news", 1, 1, bytes(120))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, len(packet), len(packet) - 122, 0x32)
        theirs.sendall(b"\xd0\0" + packet)
        with pytest.raises(AssertionError, match="not a delivery"):
            connection.hear(memoryview(bytearray(1_000)))


def test_half_a_delivery_is_noticed():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, 10)
        theirs.sendall(bytes(15))
        assert connection.hear(memoryview(bytearray(100))) == 1
        assert not connection.is_between


@pytest.mark.parametrize("qos", [0, 1])
def test_all_that_is_published_over_mqtt_is_delivered(qos):
    with godwit() as running:
        found = running.load("fan_out", "mqtt", receivers=3, events=300, qos=qos, run=1)
    assert found["deliveries"] == 900


def test_the_guard_stops_all_processes_and_removes_the_folder(tmp_path):
    folder = tmp_path / "of the peer"
    folder.mkdir()
    command = ["sh", "-c", "cat /dev/zero >/dev/null & echo $!; wait"]
    with subprocess.Popen(
        [sys.executable, network_guard.__file__, str(folder), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as guard:
        assert guard.stdout is not None
        assert guard.stdin is not None
        group, grandchild = int(guard.stdout.readline()), int(guard.stdout.readline())
        assert os.getpgid(grandchild) == group
        end = os.pidfd_open(grandchild)
        guard.stdin.close()
        assert guard.stdout.read() == ""  # until all that could write there are gone
        guard.wait(60)
    assert not folder.exists()
    assert select.select([end], [], [], 60)[0], "it runs on"
    os.close(end)


def test_a_row_shows_peers_and_ratios(capsys):
    theirs = {"Mosquitto": Measured([4.0, 8.0, 6.0], 2.0)}
    line = Line("fan-out", "fan-out 1→1", "deliveries/s", Measured([3.0], 5.0, 0.95), theirs, target=3.0)
    assert (line.verdict, line.ratio("Mosquitto")) == ("reached", 0.5)
    said = json.loads(json_line(line, MACHINE))
    assert (said["figure"], said["ratios"], said["peers"]["Mosquitto"]["figure"]) == (3.0, {"Mosquitto": 0.5}, 6.0)
    failed = Line("fan-out", "fan-out 1→100", "deliveries/s", None, theirs, faults=["Godwit failed: so"])
    assert (failed.verdict, failed.ratio("Mosquitto")) == ("failed", None)
    print_table([line, failed], MACHINE, "load average 1", 220)
    shown = capsys.readouterr().out
    for text in ("Mosquitto 6, ×0.5, 2 µs", "the generator was busy 95%", "Godwit failed: so"):
        assert text in shown


def test_amqp_is_written_as_the_standard_says():
    assert network_amqp.method((20, 10), b"\0") == b"\x01\0\x01\0\0\0\x05\0\x14\0\x0a\0\xce"
    assert network_amqp.table({"a": "b", "n": 1}) == b"\0\0\0\x0f\x01aS\0\0\0\x01b\x01nI\0\0\0\x01"
