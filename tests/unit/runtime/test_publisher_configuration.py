"""What a broker's configuration says of publishers that move, and what of it a journal keeps."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.cli.serve_command import _flags
from godwit.errors import ConfigurationError, GodwitError
from godwit.mobility.mined_proxies import CLIENTS_MAX, mined_proxies
from godwit.mobility.predictors import MovementModel, model_of
from godwit.mobility.publisher_presence import PROXIES_MAX, PublisherConfig, PublisherReconfigured, PublisherSettings
from godwit.runtime import configuration
from godwit.runtime.config_sections import PublishersSection
from godwit.runtime.configuration import Configuration, MachineSettings, load
from tests.unit.runtime.test_configuration import faults_of

BROKERS = ("b1", "b2", "b3")
MODEL = '{"transitions": {"b1": {"b2": 2, "mars": 1}, "b2": {"b3": 1}}, "pairs": {"b3": {"b1": {"b3": 4}, "b2": {}}}}'


def said(text: str, folder: Path, **environment: str) -> Configuration:
    (folder / "model.json").write_text(MODEL)
    (folder / "godwit.toml").write_text(text)
    return load(folder / "godwit.toml", environment)


def test_without_a_word_all_is_as_the_machine_has_it() -> None:
    made = load().made(1)
    assert made.publishers == PublisherSettings()
    found, usual = made.publishers.config(), PublisherConfig()
    assert (found.delay_s, found.prefetch_s, found.lease_s) == (usual.delay_s, usual.prefetch_s, usual.lease_s)
    assert found.predictor is None
    assert found.proxies_of("b7") == ("b7",)


def test_every_setting_of_the_machine_can_be_made() -> None:
    assert PublishersSection.__struct_fields__ == PublisherSettings.__struct_fields__


def test_a_model_is_kept_as_far_as_this_broker_can_ask_it(tmp_path: Path) -> None:
    text = "[publishers]\ndelay_s = 4\nprefetch_s = 5.5\nlease_s = 60\nmodel = 'model.json'\n"
    found = said(text + "[publishers.proxies]\nb1 = ['b1', 'b2']\n", tmp_path).made(1).publishers
    assert (found.delay_s, found.prefetch_s, found.lease_s) == (4.0, 5.5, 60.0)
    assert found.config().proxies_of("b1") == ("b1", "b2")
    predictor = found.config().predictor
    assert predictor == MovementModel({"b1": {"b2": 2, "mars": 1}}, {"b3": {"b1": {"b3": 4}}})
    assert predictor.next_broker("van", "b1", 1) == "b2"
    assert predictor.next_broker("van", "b1", 1, "b3") == "b3"


def test_a_model_without_pairs_or_without_this_broker_is_one(tmp_path: Path) -> None:
    found = said("[broker]\nname = 'b9'\n[publishers]\nmodel = 'model.json'\n", tmp_path).made(1).publishers
    assert found.config().predictor == MovementModel({}, {})
    (tmp_path / "model.json").write_text('{"transitions": {"b9": {"b1": 0.5}}}')
    found = load(tmp_path / "godwit.toml").made(1).publishers
    assert found.config().predictor == MovementModel({"b9": {"b1": 0.5}}, {})


names = st.sampled_from(BROKERS)
weights = st.integers(0, 5) | st.integers(0, 10**30) | st.floats(0, 1e9, allow_subnormal=True)
ways = st.dictionaries(names, st.dictionaries(names, weights, max_size=3), max_size=3)


@given(ways, st.dictionaries(names, ways, max_size=3), names, st.none() | names)
def test_what_a_broker_keeps_of_a_model_answers_as_the_whole(
    transitions: dict[str, dict[str, float]],
    pairs: dict[str, dict[str, dict[str, float]]],
    here: str,
    before: str | None,
) -> None:
    whole = MovementModel(transitions, pairs)
    kept = model_of(whole.seen_from(here).to_text(), "kept")
    assert kept == whole.seen_from(here)
    assert kept.next_broker("van", here, 1, before) == whole.next_broker("van", here, 1, before)


def test_what_a_machine_is_made_of_is_read_as_the_same(tmp_path: Path) -> None:
    made = said("[publishers]\nmodel = 'model.json'\nproxies = { b2 = ['b3'] }\n", tmp_path).made(7)
    assert msgspec.json.decode(msgspec.json.encode(made), type=MachineSettings) == made
    resettled = PublisherReconfigured(made.neighbours, made.config.limits, made.publishers)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(resettled), type=PublisherReconfigured) == resettled


def test_what_older_journals_say_of_their_machine_can_be_read() -> None:
    made = load().made(7)
    older = msgspec.to_builtins(made)
    del older["publishers"]
    assert msgspec.json.decode(msgspec.json.encode(older), type=MachineSettings) == made


def test_other_settings_for_publishers_can_be_put_in_force(tmp_path: Path) -> None:
    before = load().made(7)
    assert before.changes(said("[publishers]\nmodel = 'model.json'\nlease_s = 9\n", tmp_path).made(7)) == []


def test_names_of_brokers_are_taken_as_they_are_written(tmp_path: Path) -> None:
    text = "[publishers.proxies]\nb1 = ['b1']\nb2 = ['b2']\n"
    environment = {"GODWIT_PUBLISHERS__PROXIES__B1": "['b3']", "GODWIT_PUBLISHERS__DELAY_S": "3"}
    found = said(text, tmp_path, **environment)
    assert found.settled.publishers.proxies == {"b1": ("b1",), "b2": ("b2",), "B1": ("b3",)}
    assert found.settled.publishers.delay_s == 3
    flags = _flags({}, [], ["publishers.proxies.b.2=['b1']", "publishers.delay_s=2"])
    assert [flag.path for flag in flags] == [("publishers", "proxies", "b.2"), ("publishers", "delay_s")]


def test_what_is_printed_is_read_as_the_same(tmp_path: Path) -> None:
    found = said("[publishers]\nmodel = 'model.json'\n[publishers.proxies]\n'b 1' = ['b1', 'b2']\n", tmp_path)
    (tmp_path / "printed.toml").write_text(found.to_toml())
    assert load(tmp_path / "printed.toml").settled == found.settled


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("delay_s = -1", "FILE:2: publishers.delay_s is -1: allowed is a number from 0 to 31,536,000"),
        ("lease_s = 0.5", "FILE:2: publishers.lease_s is 0.5: allowed is a number from 1 to 31,536,000"),
        ("prefetch_s = 'long'", "FILE:2: publishers.prefetch_s is 'long': allowed is a number from 0 to"),
        ("prefetch_s = 1e300", "FILE:2: publishers.prefetch_s is 1e+300: allowed is a number from 0 to"),
        ("modell = 'm.json'", "FILE:2: publishers.modell is not known (did you mean model?); allowed are delay_s,"),
        ("model = 'none.json'", "FILE:2: publishers.model: none.json cannot be read: No such file or directory"),
        ("proxies = 5", "FILE:2: publishers.proxies is 5: allowed is a table, with each name a list"),
        ("proxies = { b1 = 'b2' }", "FILE:2: publishers.proxies.b1 is 'b2': allowed is a list, each a text"),
        ("proxies = { b1 = ['a/b'] }", "FILE:2: publishers.proxies.b1: 'a/b' is the name of no broker; allowed is"),
        ("proxies = { b1 = ['b2', 'b2'] }", "FILE:2: publishers.proxies.b1 is ['b2', 'b2']: allowed are up to 16"),
        (
            f"proxies = {{ b1 = {[f'b{n}' for n in range(PROXIES_MAX + 1)]} }}",
            "FILE:2: publishers.proxies.b1 is ['b0', 'b1',",
        ),
    ],
)
def test_a_fault_names_the_line_and_what_is_allowed(tmp_path: Path, text: str, fault: str) -> None:
    [found] = faults_of(f"[publishers]\n{text}\n", tmp_path)
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (b"{", "model.json: Expecting property name"),
        (b"\xff", "model.json is not UTF-8"),
        (b"[]", 'model.json: a movement model is {"transitions": {broker: {broker: weight}}}'),
        (b'{"transitions": {"b1": {"b2": -1}}}', "model.json: transitions.b1.b2 is -1: allowed is a number, 0 or more"),
        (b'{"transitions": {}, "pairs": {"b1": 3}}', "model.json: pairs.b1 is not a table of brokers, and weights"),
        (b" " * 101, "model.json is too long: allowed are 100 bytes"),
    ],
)
def test_a_file_that_is_no_model_is_a_fault_of_the_key(
    tmp_path: Path, model: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "MODEL_BYTES_MAX", 100)
    (tmp_path / "model.json").write_bytes(model)
    [found] = faults_of("[publishers]\nmodel = 'model.json'\n", tmp_path)
    assert found.startswith(f"FILE:2: publishers.model: {fault}")


# ------------------------------------------------------------ proxies that were mined


def test_proxies_of_single_clients_are_read_from_what_the_pipeline_mines(tmp_path: Path) -> None:
    (tmp_path / "proxies.json").write_text('{"share": 0.9, "clients": {"van": ["b3", "b2", "b3"], "car": []}}')
    found = said("[publishers]\nclient_proxies = 'proxies.json'\n", tmp_path).made(1).publishers
    assert found.client_proxies == {"van": ("b3", "b2")}
    config = found.config()
    assert config.proxies_of("b1", "van") == ("b3", "b2")
    assert config.proxies_of("b1", "car") == ("b1",)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "proxies are"),
        ("{", "line 1"),
        ('{"clients": {"van": "b3"}}', "clients.van is"),
        ('{"clients": {"van": [3]}}', "clients.van is"),
        ('{"clients": {"van": [""]}}', "clients.van is"),
    ],
)
def test_what_is_wrong_with_mined_proxies_is_told(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "proxies.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"publishers\.client_proxies.*proxies\.json") as error:
        said("[publishers]\nclient_proxies = 'proxies.json'\n", tmp_path)
    assert fault in str(error.value)


def test_more_clients_than_anybody_mines_are_refused() -> None:
    text = json.dumps({"clients": {str(n): ["b"] for n in range(CLIENTS_MAX + 1)}})
    with pytest.raises(GodwitError, match="allowed are 100,000"):
        mined_proxies(text, "proxies.json")
