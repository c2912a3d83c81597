"""Connecting a command to a broker: a refusal says what to do."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from godwit.cli.broker_connection import ClientOptions, wait_until_attached
from godwit.errors import GodwitError

VISITOR = ClientOptions(["b1.example:7077"], "", "", "", tls=False, ca="")


class Refused:
    """A client whose broker refuses it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def states(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(kind="away", reason=self.reason)


def test_a_broker_without_users_refuses_other_machines_with_a_hint() -> None:
    client = Refused("this broker has no users, so it accepts clients from its own machine only")
    with pytest.raises(
        GodwitError, match="own machine only\nTo accept clients from other machines, give it a user file"
    ):
        asyncio.run(wait_until_attached(cast(Any, client), VISITOR))
