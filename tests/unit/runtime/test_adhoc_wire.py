"""Which names devices of an ad hoc network may have."""

import pytest

from godwit.errors import PeerFault
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_wire import MessageSeals, announced, check_announcement, check_greeting, greeting

NO_NAMES = ["", "x/down", "/", "a\nb", "a" * 257]


@pytest.mark.parametrize("name", NO_NAMES)
def test_no_device_has_a_name_that_fixed_brokers_could_take_for_another(name: str) -> None:
    key, ours = DeviceKey.made(), greeting("net", "x", DeviceKey.made())
    signed = MessageSeals(name, "net", key, KnownKeys(), 0)._signed([], 0.0)
    here = MessageSeals("x", "net", DeviceKey.made(), KnownKeys(), 0)
    with pytest.raises(PeerFault, match="and no slash"):
        check_greeting(ours, greeting("net", name, key))
    with pytest.raises(PeerFault, match="and no slash"):
        check_announcement(announced(key, "net", name, 1, 0.0), "net")
    with pytest.raises(PeerFault, match="and no slash"):
        here.opened(signed, 0.0)


@pytest.mark.parametrize("name", ["x", "Zoë 2", "a.b-c_d"])
def test_other_names_are_allowed(name: str) -> None:
    check_greeting(greeting("net", "me", DeviceKey.made()), greeting("net", name, DeviceKey.made()))
