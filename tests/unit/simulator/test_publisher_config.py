"""What scenarios say about publishers that move: sizes, predictors, models; and what is wrong with them."""

from pathlib import Path

import pytest

from godwit.broker.messages import Ack, Advertise, Delivery, Frame, Publish, Request
from godwit.errors import GodwitError, ScenarioError
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from godwit.mobility.predictors import Itineraries, MovementModel, NoisyPredictor, model_of
from godwit.simulator.message_sizes import size_of, sizes
from godwit.simulator.publisher_config import publisher_config
from godwit.simulator.scenario import load, named, with_changes
from godwit.simulator.scenario.roaming_section import PublisherMoves, Roaming

STREET = tuple("abcdefgh")
SAID = event({"x": 1}, publisher="p", sequence=1)


def test_messages_of_control_and_events_may_have_a_given_size():
    size = sizes(500, 700)
    assert size(Frame(1, 0, Advertise(("p", "a"), TRUE))) == size(Request(1, Advertise(("p", "a"), TRUE))) == 500
    assert size(Frame(1, 0, Publish(SAID))) == size(Request(1, Publish(SAID))) == size(Delivery(1, SAID, ("a",))) == 700
    assert size(Ack(1)) == size_of(Ack(1))
    assert sizes(None, None) is size_of
    assert sizes(500, None)(Frame(1, 0, Publish(SAID))) == size_of(Frame(1, 0, Publish(SAID)))


def test_proxies_are_the_nearest_along_the_street_the_first_broker_among_them():
    config = publisher_config(Roaming(publisher_mode="proxy", publishers=PublisherMoves(proxies=5)), STREET, {})
    assert sorted(config.proxies_of("d")) == list("bcdef")
    assert sorted(config.proxies_of("a")) == list("abcde")
    assert sorted(config.proxies_of("h")) == list("defgh")
    assert config.proxies_of("elsewhere") == ("elsewhere",)


def test_the_predictor_is_perfect_or_wrong_at_a_rate_or_a_model(tmp_path: Path):
    file = tmp_path / "model.json"
    file.write_text('{"transitions": {"a": {"b": 2, "c": 1}}}')

    def predictor(**settings: object) -> object:
        moves = PublisherMoves(**settings)  # type: ignore[arg-type]
        return publisher_config(
            Roaming(publisher_mode="prefetching", publishers=moves), STREET, {"p": ("a", "b")}
        ).predictor

    assert predictor() == Itineraries({"p": ("a", "b")})
    assert isinstance(predictor(wrong_rate=0.2), NoisyPredictor)
    assert predictor(predictor="model", model_file=str(file)) == MovementModel({"a": {"b": 2, "c": 1}})
    file.write_text('{"transitions": {"a": {"b": 2}}, "pairs": {"c": {"a": {"b": 1}}}}')
    wanted = MovementModel({"a": {"b": 2}}, {"c": {"a": {"b": 1}}})
    assert predictor(predictor="model", model_file=str(file)) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "model.json: Expecting"),
        ("[]", "a movement model is"),
        ('{"transitions": {"a": 5}}', "transitions.a is not a table"),
        ('{"transitions": {"a": {"b": -1}}}', "transitions.a.b is -1: allowed is a number, 0 or more"),
        ('{"transitions": {"a": {"b": NaN}}}', "transitions.a.b is nan"),
        ('{"transitions": {"a": {"b": true}}}', "transitions.a.b is True"),
        ('{"transitions": {}, "pairs": []}', "model.json: pairs is not a table of brokers before"),
        ('{"transitions": {}, "pairs": null}', "pairs is not a table of brokers before"),
        ('{"transitions": {}, "pairs": {"a": 1}}', "pairs.a is not a table of brokers, and weights"),
        ('{"transitions": {}, "pairs": {"a": {"b": 1}}}', "pairs.a.b is not a table of brokers and weights"),
        ('{"transitions": {}, "pairs": {"a": {"b": {"c": -1}}}}', "pairs.a.b.c is -1: allowed is a number, 0 or more"),
        ('{"transitions": {}, "pairs": {"a": {"b": {"c": Infinity}}}}', "pairs.a.b.c is inf"),
        ('{"pairs": {}}', "a movement model is"),
    ],
)
def test_a_model_that_is_none_says_what_is_wrong(text: str, reason: str):
    with pytest.raises(GodwitError, match=reason):
        model_of(text, "model.json")


def test_a_model_stands_beside_its_scenario_and_must_be_there(tmp_path: Path):
    text = "[overlay]\nkind='line'\nbrokers=3\n[clients.roaming.publishers]\npredictor='model'\nmodel_file='m.json'\n"
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(
        ScenarioError, match=r"clients\.roaming\.publishers\.model_file is .*m\.json': it must be a file"
    ):
        load(tmp_path / "s.toml")
    (tmp_path / "m.json").write_text('{"transitions": {}}')
    assert load(tmp_path / "s.toml").clients.roaming.publishers.model_file == str(tmp_path / "m.json")


def test_a_mode_that_there_is_none_of_is_refused():
    with pytest.raises(ScenarioError, match="publisher_mode"):
        with_changes(named("city"), ["clients.roaming.publisher_mode=teleport"])
