"""Few of many peers answer, and where few could, they answer at once."""

import pytest

from godwit.teamwork.machine.turns import SLOT_S, TURNS_S, is_among_first, turn_after_s

DEVICES = [f"d{number}" for number in range(200)]


def test_the_device_of_the_other_answers_at_once_in_a_conversation_of_two() -> None:
    assert {turn_after_s(device, "asker", members=2) for device in DEVICES} == {0.0}
    assert {turn_after_s(device, "asker", members=1) for device in DEVICES} == {0.0}


@pytest.mark.parametrize("members", [3, 17, 1_000])
def test_turns_are_spread_over_as_many_slots_as_there_are_others(members: int) -> None:
    turns = {turn_after_s(device, "asker", members) for device in DEVICES}
    assert turns == {slot * SLOT_S for slot in range(min(members - 1, round(TURNS_S / SLOT_S)))}


@pytest.mark.parametrize("count", [1, 2, 32])
def test_so_many_devices_are_first_as_are_wanted(count: int) -> None:
    first = [device for device in DEVICES if is_among_first(device, DEVICES, "asker", count)]
    assert len(first) == count
    assert first != [device for device in DEVICES if is_among_first(device, DEVICES, "another", count)]
    assert is_among_first("alone", [], "asker", count)
