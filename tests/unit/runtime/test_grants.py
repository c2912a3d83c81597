"""What a client asks for is compared with its grants in a bounded number of steps."""

from typing import Any

import pytest

from godwit.broker.client_rights import EFFORT_MAX
from godwit.broker.messages import Advertise, Denied, Publish, Request, Retain, Subscribe
from godwit.filters import FALSE
from godwit.filters.effort import Effort
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.runtime import grants
from godwit.runtime.authentication import DENIED_MAX, Principal
from godwit.runtime.grants import EVERYTHING, NOTHING_GRANTED, SHOWN_CHARS_MAX, TOO_LARGE, Grants, in_short

GRANT = parse("kind = 'parking'")
REFUSED = parse(f"kind != 'parking' AND ({' OR '.join(f'(a{i} > {i} AND b{i} < {i})' for i in range(450))})")
GRANTED = parse(f"kind = 'parking' AND ({' OR '.join(f'(a{i} > {i} AND b{i} < {i})' for i in range(450))})")


def test_a_refusal_of_nine_hundred_literals_takes_few_steps() -> None:
    effort = Effort(EFFORT_MAX)
    assert Grants(FALSE, GRANT).narrowed(REFUSED, GRANT, effort) is None
    assert not effort.is_over


def test_what_cannot_be_compared_within_the_steps_is_refused_with_that_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wish = Request(1, Subscribe(("ann", "s"), GRANTED))
    rights = Grants(FALSE, GRANT)
    assert rights.checked(wish) is wish
    monkeypatch.setattr(grants, "EFFORT_MAX", 100)
    refused = rights.checked(wish)
    assert refused.wish == Denied(TOO_LARGE)


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (Publish(Event({"topic": "fleet/a", "pin": 1234}, "ann", 1)), "publish topic 'fleet/a'"),
        (Publish(Event({"pin": 1234, "n": 1}, "ann", 1)), "publish an event with pin, n"),
        (Retain(Event({"n": 1}, "ann", 1), "door"), "retain an event by 'door'"),
        (Subscribe(("ann", "s"), GRANT), "subscribe to kind = 'parking'"),
        (Subscribe(("ann", "s"), REFUSED), f"subscribe to a filter of {REFUSED.size} literals"),
        (Advertise(("ann", "s"), GRANT), "advertise kind = 'parking'"),
    ],
)
def test_a_request_in_a_log_names_the_verb_and_what_it_is_about(wish: Any, text: str) -> None:
    assert in_short(wish) == text


def test_a_request_in_a_log_is_short_and_so_is_what_is_kept_of_requests() -> None:
    assert len(in_short(Publish(Event({"topic": "x" * 10_000}, "ann", 1)))) == SHOWN_CHARS_MAX + 1
    principal = Principal("ann", grants=NOTHING_GRANTED)
    for number in range(DENIED_MAX + 5):
        principal.checked(Request(number, Publish(Event({"topic": "a"}, "ann", 1))))
    assert list(principal.denied) == list(range(5, DENIED_MAX + 5))


def test_only_who_may_publish_everything_may_speak_as_a_broker() -> None:
    forged = Publish(Event({"kind": "parking", "topic": "$SYS/broker/losses/since", "mqtt.sys_of": "b1"}, "ann", 1))
    refused = Grants(GRANT, FALSE).checked(Request(1, forged))
    assert isinstance(refused.wish, Denied)
    retained = Grants(GRANT, FALSE).checked(Request(1, Retain(forged.event, "$SYS/broker/losses/since")))
    assert isinstance(retained.wish, Denied)
    said = Request(1, forged)
    assert EVERYTHING.checked(said) is said
