"""Machines and simulator do what is recorded, byte for byte; and a machine that does otherwise is caught."""

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from godwit.baselines import hop_messages
from godwit.broker import effects, gossip_messages, stream_messages
from godwit.broker import messages as broker_messages
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Effect, Send, StartTimer, Tell
from godwit.broker.messages import Delivery, Frame
from godwit.filters.events import event
from godwit.mobility import mobile_broker
from godwit.mobility import move_messages as mobility_messages
from godwit.mobility.attaching import Attaching
from godwit.trace import Record
from tests.transcripts import network
from tests.transcripts.catalogue import SCRIPTS
from tests.transcripts.comparing import HERE, RENAMED, Renames, difference, faults_of, recorded, renames
from tests.transcripts.record import played, types_text
from tests.transcripts.rendering import Writer, signature
from tests.transcripts.traces import QUICK, RUNS, Hash, traced

TRACES = {line["run"]: line for line in json.loads(recorded("traces.json"))}
UNSEEN = {"ComponentInput", "Notify", "RetainedRest", "Suspended"}
"""What is in no transcript: only clients ask for it, only a gateway says it, or it takes thousands of events."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_the_recorded_transcript(name: str) -> None:
    assert difference(f"{name}.txt", played(name).text(renames())) == ""


def test_types_have_the_recorded_fields_and_defaults() -> None:
    fresh = "\n".join(sorted(renames().restored(types_text()).splitlines())) + "\n"
    assert difference("types.txt", fresh) == ""


def test_every_recorded_transcript_has_its_script() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == {*SCRIPTS, "types"}


def check_trace(name: str) -> None:
    assert traced(name, renames()) == TRACES[name]


@pytest.mark.parametrize("name", QUICK)
def test_a_run_gives_the_recorded_trace(name: str) -> None:
    check_trace(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name not in QUICK])
def test_every_other_run_gives_the_recorded_trace(name: str) -> None:
    check_trace(name)


def test_fifty_runs_are_recorded() -> None:
    assert list(TRACES) == RUNS
    assert len(RUNS) == 50
    assert set(QUICK) <= set(RUNS)


# ------------------------------------------------------------ what the transcripts have


def test_every_mode_of_moving_is_in_a_transcript() -> None:
    text = "".join(recorded(f"{name}.txt") for name in SCRIPTS)
    ours = [*mobile_broker("b", {}, BrokerConfig()).component(Attaching).policies, "naive"]
    assert [mode for mode in ours if mode != "relocate" and f"mode='{mode}'" not in text] == []


def test_every_message_input_and_effect_is_in_a_transcript() -> None:
    modules = (effects, broker_messages, mobility_messages, gossip_messages, stream_messages, hop_messages)
    named = [(name, getattr(module, name)) for module in modules for name in module.__all__]
    types = {name for name, kind in named if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    shown = {line.partition("(")[0] for line in types_text().splitlines()}
    assert types - shown == UNSEEN


# ------------------------------------------------------------ names


def test_each_renamed_thing_has_one_name_before_and_after() -> None:
    words = {word for path in HERE.glob("*.txt") for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert faults_of(tomllib.loads(RENAMED.read_text(encoding="utf-8")), words) == []


def test_each_mapping_of_names_is_used() -> None:
    mine = Renames(renames().tables)
    names = {(table, old) for table, names in mine.tables.items() for old in names}
    for name in SCRIPTS:
        played(name).text(mine)
    mine.restored(types_text())
    for name in QUICK:  # each run takes a second: no more than are needed
        if names <= mine.used.keys():
            break
        traced(name, mine)
    assert names - mine.used.keys() == set()


def test_names_are_mapped_back_where_they_belong_and_all_at_once() -> None:
    changed = Renames(
        {
            "types": {"Relocate": "FetchSession", "Ack": "Hello", "Hello": "Ack"},
            "fields": {"life": "incarnation"},
            "kinds": {"lost": "dropped"},
            "timers": {"relocate": "arrival"},
            "texts": {"is lost": "was dropped"},
        }
    )
    fresh = (
        "FetchSession(1, incarnation=2) Ack(1) Hello(2) FetchSessions Record('dropped', detail='dropped, was dropped')"
    )
    fresh += " StartTimer(('arrival', 'arrival'), 1) TimerDue(('arrival',)) 'arrival' incarnation"
    back = "Relocate(1, life=2) Hello(1) Ack(2) FetchSessions Record('lost', detail='dropped, is lost')"
    back += " StartTimer(('relocate', 'arrival'), 1) TimerDue(('relocate',)) 'arrival' incarnation"
    assert changed.restored(fresh) == back


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ({"types": {"Ack": "Signal", "Hello": "Signal"}}, "2 recorded names became Signal"),
        ({"types": {"Ack": "Hello"}}, "Hello is the recorded name of something that was not renamed"),
        ({"kinds": {"lost": "lost"}}, "lost is mapped to itself"),
    ],
)
def test_a_mapping_that_could_hide_a_change_is_caught(tables: dict[str, dict[str, str]], fault: str) -> None:
    [found] = faults_of(tables, {"Ack", "Hello"})
    assert fault in found


# ------------------------------------------------------------ planted faults


class Planted:
    """A broker machine whose effects go through `change`, once."""

    def __init__(self, machine: Any, change: Callable[[list[Effect]], list[Effect]]) -> None:
        self.machine = machine
        self.change = change

    def handle(self, input: Any, now: float) -> list[Effect]:
        return self.change(self.machine.handle(input, now))


def swapped(effects: list[Effect]) -> list[Effect]:
    """The last two effects change places."""
    return [*effects[:-2], *reversed(effects[-2:])]


def without_a_timer(effects: list[Effect]) -> list[Effect]:
    """No timer for sending again is started."""
    return [each for each in effects if not (isinstance(each, StartTimer) and each.key[0] == "resend")]


def with_another_number(effects: list[Effect]) -> list[Effect]:
    """A delivery says that its predecessor is known."""
    found: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Tell) and isinstance(effect.message, Delivery):
            effect = Tell(effect.connection, msgspec.structs.replace(effect.message, predecessor=0))
        found.append(effect)
    return found


def with_another_acknowledgement(effects: list[Effect]) -> list[Effect]:
    """Frames acknowledge one less than they could."""
    found: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.frame, Frame) and effect.frame.ack > 0:
            effect = Send(effect.peer, msgspec.structs.replace(effect.frame, ack=effect.frame.ack - 1))
        found.append(effect)
    return found


def with_a_true_for_a_one(effects: list[Effect]) -> list[Effect]:
    """Equal, and another type all the same."""
    found: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Tell) and isinstance(effect.message, Delivery) and effect.message.number == 1:
            effect = Tell(effect.connection, msgspec.structs.replace(effect.message, number=True))
        found.append(effect)
    return found


PLANTS = (swapped, without_a_timer, with_another_number, with_another_acknowledgement, with_a_true_for_a_one)


@pytest.mark.parametrize("change", PLANTS, ids=lambda change: change.__name__)
def test_a_machine_that_does_otherwise_is_caught(
    change: Callable[[list[Effect]], list[Effect]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, make = "moving_relocate_tree", network.make_broker
    assert difference(f"{name}.txt", SCRIPTS[name]().text(renames())) == ""
    monkeypatch.setattr(network, "make_broker", lambda *arguments: Planted(make(*arguments), change))
    found = difference(f"{name}.txt", SCRIPTS[name]().text(renames()))
    assert found.startswith("--- recorded moving_relocate_tree.txt")


def test_a_broker_that_answers_its_journal_otherwise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make_twice(name: str, *arguments: Any) -> Any:
        made.append(name)
        machine = make(name, *arguments)
        return Planted(machine, without_a_timer) if made.count(name) > 1 else machine

    make = network.make_broker
    monkeypatch.setattr(network, "make_broker", make_twice)
    with pytest.raises(AssertionError, match="otherwise the second time"):
        SCRIPTS["recovery_crash_border_tree"]()


def test_a_default_that_changes_shows_in_the_types() -> None:
    class Before(msgspec.Struct, frozen=True):
        client: str
        life: int = 1

    class After(msgspec.Struct, frozen=True):
        client: str
        life: int = 2

    write = Writer().written
    assert write(Before("C")).removeprefix("Before") == write(After("C")).removeprefix("After")
    assert signature(Before) == "Before(client, life=1)"
    assert signature(After) == "After(client, life=2)"


def test_an_event_that_changes_on_its_way_is_written_in_full_again() -> None:

    write = Writer().written
    one, other = (event({"x": x}, publisher="P", sequence=3) for x in (1, 2))
    assert write(one) == "Event({'x': 1}, publisher='P', sequence=3)"
    assert write(one) == "Event P/3"
    assert write(other) == "Event({'x': 2}, publisher='P', sequence=3)"


def test_a_trace_whose_record_changed_has_another_hash() -> None:

    one, other = Hash(Renames({})), Hash(Renames({}))
    one.write(1.0, "b1", Record("lost", "C", number=1))
    other.write(1.0, "b1", Record("lost", "C", number=2))
    assert one.hex() != other.hex()


def test_a_trace_of_renamed_types_and_kinds_has_the_recorded_hash() -> None:

    one, other = Hash(Renames({})), Hash(Renames({"kinds": {"lost": "dropped"}, "types": {"Over": "EndOlderSession"}}))
    one.write(1.0, "b1", Record("lost", "C", "Over"))
    other.write(1.0, "b1", Record("dropped", "C", "EndOlderSession"))
    assert one.hex() == other.hex()
