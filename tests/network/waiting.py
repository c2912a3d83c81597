"""How tests on real time wait: for a condition, and for as long as that takes, without turning the loop for nothing.

*Theory.* What a test waits for (a table of a broker, the state of a client) changes because something has happened on
the loop: bytes have come, a timer was due, a thread has finished. So the loop of `run` looks at the conditions each
time it has done what was due, just before it would wait for the next thing to happen. In between it sleeps.

The loop does not learn what goes on in another process. There, a test waits for a line that the process prints, for its
end, or for a message from it.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["LIMIT_S", "PATIENCE_S", "a_turn", "new_loop", "pause", "run", "until", "within"]

LIMIT_S = 500.0  # below the limit of pytest, which does not say what was waited for
PATIENCE_S = 120.0

T = TypeVar("T")


class Watching(selectors.BaseSelector):
    """A selector that looks at conditions before it waits."""

    def __init__(self) -> None:
        self.awaited: dict[asyncio.Future[None], Callable[[], Any]] = {}
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> Any:
        return self._inner.select(0 if self._look() else timeout)

    def _look(self) -> bool:
        """Tell those whose condition holds; whether there were any."""
        was_any = False
        for future, holds in list(self.awaited.items()):
            try:
                if not future.done() and holds():
                    future.set_result(None)
            except Exception as error:
                future.set_exception(error)
            was_any = was_any or future.done()
        return was_any

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        found = self._inner.get_map()
        assert found is not None
        return found

    def close(self) -> None:
        self._inner.close()


_WATCHING: WeakKeyDictionary[asyncio.AbstractEventLoop, Watching] = WeakKeyDictionary()


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop on which `until` works."""
    watching = Watching()
    loop = asyncio.SelectorEventLoop(watching)
    _WATCHING[loop] = watching
    return loop


async def within(scene: Callable[[], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
    """A scene that comes to its end in that time; if not, say so."""
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await (scene if isinstance(scene, Coroutine) else scene())
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(f"the scene has not come to its end after {limit_s:g} s") from None


def run(scene: Callable[[], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
    """Run a scene on a loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(within(scene, limit_s))


async def until(holds: Callable[[], Any], what: str = "that is so", patience_s: float = PATIENCE_S) -> None:
    """Until that is so; if it never is, say so."""
    loop = asyncio.get_running_loop()
    assert loop in _WATCHING, "this loop looks at no conditions: use `run`, or `new_loop`"
    watching, future = _WATCHING[loop], loop.create_future()
    watching.awaited[future] = holds
    try:
        async with asyncio.timeout(patience_s):
            await future
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None
    finally:
        del watching.awaited[future]


async def pause(seconds: float) -> None:
    """Let so much time go by: for the pace of a run that is drawn."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


async def a_turn() -> None:
    """Let the loop do what is due now: for those that do not wait for anything, and only let others go first."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
