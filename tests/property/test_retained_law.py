"""Whoever subscribes with `retained` gets each retained event, wherever its client goes meanwhile."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import retained
from godwit.broker.messages import Accepted, Attach, Delivery, Request, Retain, Subscribe
from godwit.filters.events import event
from godwit.filters.language import parse
from tests.property.roaming_line import RoamingLine

KEYS = 8
STEPS = st.one_of(
    st.tuples(st.just("move"), st.sampled_from("abc")),
    st.tuples(st.just("retain"), st.integers(0, KEYS - 1)),
    st.tuples(st.just("pass"), st.sampled_from((0.005, 0.02, 0.05))),
)


@given(st.sampled_from(("tree", "graph")), st.lists(STEPS, max_size=8))
def test_a_client_that_moves_between_slices_gets_each_retained_event_and_each_event_unmarked_once(family, steps):
    with patch.object(retained, "STEPS_AT_ONCE", 2 * (retained.STEPS_EACH + 2)):
        net, sequence = RoamingLine(family=family), 0
        net.say("a", "p", Attach("pub", mode="named"))

        def retain(key: int) -> None:
            nonlocal sequence
            sequence += 1
            said = event({"n": sequence}, publisher="pub", sequence=sequence)
            net.say("a", "p", Request(sequence, Retain(said, f"k{key}")))

        for key in range(KEYS):
            retain(key)
        net.pass_time(1.0)
        net.say("b", "c0", Attach("ann", mode="named"))
        net.say("b", "c0", Request(1, Subscribe(("ann", "s"), parse("n >= 0 AND n <= 99"), retained=True)))
        assert Accepted(1) in [said for _, over, said in net.told if over == "c0"]
        for number, (what, detail) in enumerate(steps, 1):
            if what == "move":
                net.say(detail, f"c{number}", Attach("ann", mode="named"))
            elif what == "retain":
                retain(detail)
            else:
                net.pass_time(detail)
        net.pass_time(5.0)
        numbered = {said.number: said.event for _, _, said in net.told if isinstance(said, Delivery)}
        came = [(each.sequence, "retained" in each.attributes) for each in numbered.values()]
        replaced = {key for what, key in steps if what == "retain"}
        for key in range(KEYS):
            assert came.count((key + 1, True)) == 1 or key in replaced
        for later in range(KEYS + 1, sequence + 1):
            assert 1 <= came.count((later, True)) + came.count((later, False)) <= 2
            assert came.count((later, False)) <= 1
