"""The remote of a bridge: a webhook. Each event is one signed POST of a CloudEvent.

*Rules.*
1. One event at a time, in the order of the queue: the next is sent when the one before was accepted.
2. A 2xx response accepts an event. A final refusal (4xx) drops it, and is counted. After all other results the bridge
   retries with growing pauses, and the event stays in the queue.
3. `X-Godwit-Delivery` names session and number of a delivery. It is the same in all attempts, also after a restart: a
   receiver that remembers it handles each event once.
"""

import asyncio
from pathlib import Path

from godwit.broker.messages import Delivery
from godwit.languages.cloud_events import STRUCTURED
from godwit.runtime import given_cloud_events
from godwit.runtime.bridges.bridge import Bridge, RemoteGone
from godwit.runtime.bridges.crossing import taken_out
from godwit.runtime.bridges.local_side import LocalSide
from godwit.webhook_post import WebhookError, WebhookPoster

__all__ = ["WebhookRemote"]


class WebhookRemote:
    """One webhook."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._poster: WebhookPoster

    async def open(self) -> None:
        """Read the secret. A connection is opened with the first event."""
        self._poster = WebhookPoster(Path(self._bridge.section.secret).read_bytes().strip())

    async def run(self, local: LocalSide) -> None:
        """Send events until one is not accepted."""
        while True:
            delivery = await local.next_delivery()
            if taken_out(self._bridge, delivery) is not None:
                await self._post(delivery, f"{local.attached.session}.{delivery.number}")
            local.done([delivery.number])

    async def _post(self, delivery: Delivery, name: str) -> None:
        """(rule 2)"""
        body = given_cloud_events.structured(delivery.event)
        try:
            await asyncio.to_thread(self._poster.post, self._bridge.section.address, body, name, STRUCTURED)
        except WebhookError as error:
            if not error.is_final:
                raise RemoteGone(str(error)) from None
            self._bridge.tally.refuse("out", str(error))
        else:
            self._bridge.tally.add("out", "carried")

    async def close(self) -> None:
        """There is nothing to close."""
