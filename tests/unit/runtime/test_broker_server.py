"""What a broker has ready before it listens."""

import asyncio
import io
import json
from collections import Counter
from pathlib import Path

import pytest

from godwit.languages.query import LANGUAGES
from godwit.runtime.broker_server import BrokerServer
from godwit.runtime.configuration import Override, load
from godwit.runtime.line_limits import PEER_BURST
from godwit.runtime.log import make_log
from godwit.trace import Record


@pytest.mark.parametrize(("mqtt", "loaded"), [("127.0.0.1:0", 1), ("", 0)])
def test_languages_are_loaded_before_a_client_can_send_a_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mqtt: str, loaded: int
) -> None:
    calls: list[dict[str, object]] = []
    broker = BrokerServer(
        load(
            None,
            None,
            [
                Override("--set listen.native", ("listen", "native"), "127.0.0.1:0"),
                Override("--set listen.mqtt", ("listen", "mqtt"), mqtt),
                Override("--set listen.http", ("listen", "http"), ""),
                Override("--set journal.folder", ("journal", "folder"), str(tmp_path)),
            ],
        ),
        make_log(format="json", to=io.StringIO()),
    )
    monkeypatch.setattr(LANGUAGES, "load_expected", lambda: calls.append(dict(broker.listening)))

    async def scene() -> None:
        await broker.start()
        await broker.stop()

    asyncio.run(scene())
    assert calls == [{}] * loaded


def test_peers_cannot_make_the_log_grow_without_a_bound(tmp_path: Path) -> None:
    async def scene() -> None:
        lines = io.StringIO()
        broker = BrokerServer(
            load(
                None,
                None,
                [
                    Override("--set listen.native", ("listen", "native"), "127.0.0.1:0"),
                    Override("--set journal.folder", ("journal", "folder"), str(tmp_path)),
                ],
            ),
            make_log("info", "json", lines),
        )
        await broker.start()
        for number in range(1_000):  # a full outbox
            broker._on_record(Record("lost", "b2", "Publish", "ann", number, detail="the outbox is full"), 0.0)
            broker.on_closed(f"c{number}", "its first message is wrong")
        broker._on_record(Record("tail_lost", detail="the disk has lost data"), 0.0)
        await broker.stop()
        written = [json.loads(line)["event"] for line in lines.getvalue().splitlines()]
        count = Counter(written)
        assert count["lost"] <= PEER_BURST + 5
        assert count["connection closed"] <= PEER_BURST + 5
        assert count["tail_lost"] == 1

    asyncio.run(scene())
