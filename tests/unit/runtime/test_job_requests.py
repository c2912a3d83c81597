"""What the dashboard may ask a broker to run."""

import json
from typing import Any

import pytest

from godwit.runtime.http_requests import Problem
from godwit.runtime.job_requests import request_of, shipped_scenarios

BROKERS = [{"broker": "b,1", "lon": 8.5, "lat": 47, "radius_m": 900}]


def plan(trace: bytes = b"time,id,lon,lat\n", **more: Any) -> bytes:
    return json.dumps({"name": "vans.csv", "brokers": BROKERS, **more}).encode() + b"\n" + trace


def test_a_plan_gets_its_trace_byte_for_byte_and_brokers_as_csv() -> None:
    files, words = request_of("plan", plan(b"\x00PAR1\n\n", name="x/../VANS.PARQUET", rate=2))
    assert files["trace.parquet"] == b"\x00PAR1\n\n"
    assert files["brokers.csv"].decode() == 'broker,lon,lat,radius_m,address\n"b,1",8.5,47.0,900.0,\n'
    assert words[:2] == ["plan", "trace.parquet"]
    assert "--rate=2.0" in words


def test_a_scenario_gets_the_files_that_come_with_godwit() -> None:
    files, words = request_of("simulate", json.dumps({"scenario": "x = 1", "seed": 7}).encode())
    assert set(files) == {"scenario.toml", *shipped_scenarios()["files"]}
    assert words == ["simulate", "scenario.toml", "--seed=7", "--trace", "trace"]


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("rm", b"{}", "there is no job 'rm': allowed is plan or simulate"),
        ("plan", b"", "the first line is not valid for this job"),
        ("plan", b"\xff{}", "the first line is not valid for this job"),
        ("plan", plan(name="vans.txt"), "ends in .csv or .parquet"),
        ("plan", plan(b" \n"), "'vans.csv' is empty"),
        ("plan", plan(brokers=[]), "brokers"),
        ("plan", plan(rate=0), "rate"),
        ("plan", plan(master="x"), "unknown field `master`"),
        ("simulate", b'{"scenario": "", "seed": -1}', "seed"),
        ("simulate", json.dumps({"scenario": "[overlay]\nfile = '../x'"}).encode(), "file is '../x'"),
        ("simulate", json.dumps({"scenario": "[a.b]\nmodel_file = '/etc/x'"}).encode(), "model_file is '/etc/x'"),
    ],
)
def test_wrong_requests_are_told(kind: str, body: bytes, told: str) -> None:
    with pytest.raises(Problem) as caught:
        request_of(kind, body)
    assert told in str(caught.value)
