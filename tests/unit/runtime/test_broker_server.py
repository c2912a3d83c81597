"""What a broker has ready before it listens."""

import asyncio
import io
from pathlib import Path

import pytest

from godwit.languages.query import LANGUAGES
from godwit.runtime.broker_server import BrokerServer
from godwit.runtime.configuration import Override, load
from godwit.runtime.log import make_log


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
