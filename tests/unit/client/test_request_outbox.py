"""What waits to be sent: what a new filter says of it is not what the last one said."""

from godwit.broker.messages import Publish
from godwit.client.request_outbox import RequestOutbox
from godwit.filters.events import event
from godwit.filters.language import parse


def publication(number: int) -> Publish:
    return Publish(event({"value": number}, publisher="ann", sequence=number))


def test_what_the_last_filter_did_not_want_is_not_unwanted_by_one_that_may_be_for_another_context() -> None:
    outbox = RequestOutbox(2)
    outbox.on_quench(parse("value > 10"))
    outbox.on_settled()
    outbox.on_closed()
    assert outbox.put(publication(1)) is None
    outbox.on_quench(parse("value < 5"))
    outbox.on_closed()
    assert outbox.put(publication(20)) is None
    assert outbox.put(publication(21)) == (publication(1).event, True)  # the oldest, and it is lost
    assert (outbox.lost, outbox.quenched) == (1, 0)
