"""Mode `junction`: a greeting has the last numbers of the session that it names, and of no other."""

from godwit.broker.messages import Attach, Delivery, Subscribe
from godwit.client.subscription_numbers import SubscriptionNumbers
from godwit.filters.events import Event
from godwit.filters.language import parse

WANTED = tuple(Subscribe(("ann", name), parse("n > 0")) for name in ("a", "b"))


def delivery(number: int, *names: str) -> Delivery:
    return Delivery(number, Event({"n": number}, "pub", number), names)


def greeting(numbers: SubscriptionNumbers, session: str, received: int = 9) -> dict[str, int]:
    return dict(numbers.greeting(Attach("ann", received, session, wanted=WANTED)).numbers)


def test_only_numbers_of_the_session_that_is_meant_are_said() -> None:
    numbers = SubscriptionNumbers("junction")
    numbers.came("one", delivery(3, "a", "gone"))
    numbers.came("one", delivery(5, "b"))
    assert greeting(numbers, "one") == {"a": 3, "b": 5}
    assert greeting(numbers, "one", received=4) == {"a": 3, "b": 4}
    assert greeting(numbers, "two") == {}
    numbers.came("two", delivery(1, "a"))
    assert greeting(numbers, "two") == {"a": 1}
    assert greeting(numbers, "one") == {}


def test_other_modes_say_none() -> None:
    numbers = SubscriptionNumbers("relocate")
    numbers.came("one", delivery(3, "a"))
    assert greeting(numbers, "one") == {}
