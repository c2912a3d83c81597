"""Processes that dial, ask and answer sooner than on a network, so that tests with many of them end soon."""

from typing import Any

from godwit.runtime import reconnecting, tcp
from godwit.teamwork import live_peer
from godwit.teamwork.machine import exchange, invitations, scope_keys, turns

__all__ = ["HASTE", "hasten"]

HASTE = {"TEST_HASTE": "1"}
"""In the environment of a command: it makes haste (`godwit_process.py`)."""


def hasten() -> None:
    """From now on, in this process. No order of events depends on these times."""
    sooner: dict[Any, dict[str, float]] = {
        tcp: {"REDIAL_MAX_S": 0.25},
        reconnecting: {"RETRY_MAX_S": 0.25},
        live_peer: {"SEND_AGAIN_S": 0.5},
        turns: {"SLOT_S": 0.02},
        exchange: {"SLOT_S": 0.02, "ASK_S": 0.2},
        scope_keys: {"SLOT_S": 0.02, "ASK_S": 0.5},
        invitations: {"AGAIN_S": 0.2},
    }
    for module, times in sooner.items():
        for name, seconds in times.items():
            assert hasattr(module, name)
            setattr(module, name, seconds)
