"""What a SUBSCRIBE says for all its topic filters is read once, and its filters are bounded together."""

from collections import Counter
from collections.abc import Iterable

import pytest

from godwit.languages import Query
from godwit.languages.client_queries import client_query
from godwit.mqtt import subscribe_requests
from godwit.mqtt.mqtt_effects import AddSubscriptions, MqttSettings, PersistentState, Subscribed
from godwit.mqtt.packets import Suback, Subscribe, Subscription
from godwit.mqtt.reason_codes import ReasonCode
from godwit.mqtt.subscribe_requests import LITERALS_MAX, SubscribeRequests


def packet(filters: Iterable[str], *pairs: tuple[str, str]) -> Subscribe:
    return Subscribe(1, tuple(Subscription(text) for text in filters), {"user_property": pairs})


def test_user_properties_are_read_once_for_all_topic_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()

    def rules(pairs: Iterable[tuple[str, str]], prefix: str) -> None:
        seen["queue"] += sum(1 for _ in pairs)

    def parse(text: str, language: str) -> Query:
        seen["where"] += 1
        return client_query(text, language)

    monkeypatch.setattr(subscribe_requests, "queue_rules_of", rules)
    said = packet([f"t/{n}" for n in range(50)], *[("$where", "a = 1")] * 20, *[("$queue.count_max", "1")] * 30)
    asked = SubscribeRequests(MqttSettings(), parse).ask(PersistentState(), "c", said)
    assert isinstance(asked, AddSubscriptions)
    assert len(asked.wishes) == 50
    assert seen == {"where": 20, "queue": 30}


def test_filters_of_one_packet_are_bounded_together() -> None:
    where = " AND ".join(f"a{n} = 1" for n in range(999))
    kept = PersistentState()
    requests = SubscribeRequests(MqttSettings(), client_query)
    asked = requests.ask(kept, "c", packet([f"t/{n}" for n in range(100)], ("$where", where)))
    assert isinstance(asked, AddSubscriptions)
    assert len(asked.wishes) == LITERALS_MAX // 1_000 + 1
    told = Subscribed(asked.request, (0,) * len(asked.wishes))
    answer = requests.answer(kept, told)
    assert answer is not None
    assert Counter(answer[1].reason_codes) == {0: 51, ReasonCode.QUOTA_EXCEEDED: 49}


def test_what_is_wrong_beside_the_topic_filters_refuses_all_of_them() -> None:
    requests = SubscribeRequests(MqttSettings(), client_query)
    for pair in (("$where", "a >"), ("$queue.count_max", "x"), ("$expires_in", "x"), ("$cloudevents", "x")):
        refused = requests.ask(PersistentState(), "c", packet(["x", "y"], pair))
        assert isinstance(refused, tuple)
        assert refused[0] == Suback(1, (ReasonCode.TOPIC_FILTER_INVALID,) * 2)
        assert refused[1]
