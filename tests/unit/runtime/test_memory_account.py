"""What connections make the process hold: who goes when it is too much."""

import asyncio
from collections.abc import Callable

from godwit.runtime.memory_account import MemoryAccount


class Peer:
    """A connection that holds bytes."""

    def __init__(self, name: str, party: str, *, is_admitted: bool = True) -> None:
        self.name, self.party, self.is_admitted = name, party, is_admitted
        self.reasons: list[str] = []

    def let_go(self, reason: str) -> None:
        self.reasons.append(reason)


def scene(play: Callable[[], None]) -> None:
    async def on_a_loop() -> None:
        play()

    asyncio.run(on_a_loop())


def test_peers_that_are_not_let_in_go_first_and_then_the_party_that_holds_most() -> None:
    def play() -> None:
        account = MemoryAccount(1_000, 30.0)
        ann, eve, worse = Peer("ann", "ann"), Peer("eve", "eve"), Peer("worse", "eve")
        stranger = Peer("stranger", "192.0.2.1", is_admitted=False)
        for peer, size in ((ann, 400), (eve, 300), (stranger, 100)):
            account.on_partial(peer, size, is_new=True)
        account.on_partial(worse, 300, is_new=True)
        assert stranger.reasons
        assert account.partial_bytes == 1_000
        account.on_partial(worse, 301, is_new=False)
        assert [bool(peer.reasons) for peer in (ann, eve, worse)] == [False, True, False]
        assert "limits.partial_bytes_max" in eve.reasons[0]
        assert account.partial_bytes == 701
        assert account.shed == 2

    scene(play)


def test_what_is_complete_or_gone_counts_no_more() -> None:
    def play() -> None:
        account = MemoryAccount(1_000, 30.0)
        ann, bob = Peer("ann", "ann"), Peer("bob", "bob")
        for _ in range(10):
            account.on_partial(ann, 900, is_new=True)
            account.on_partial(ann, 0, is_new=True)
            account.on_partial(bob, 900, is_new=True)
            account.forget(bob)
        assert account.partial_bytes == 0
        assert not ann.reasons
        assert not bob.reasons

    scene(play)


def test_a_message_must_be_complete_in_time_and_a_long_one_has_longer() -> None:
    async def play() -> None:
        account = MemoryAccount(2**30, 10.0)
        slow, long, new = Peer("slow", "a"), Peer("long", "b"), Peer("new", "c")
        for peer, size in ((slow, 10), (long, 2 * 2**20), (new, 10)):
            account.on_partial(peer, size, is_new=True)
        for peer in (slow, long, new):
            account._partial[peer].began -= 25.0
        account.on_partial(new, 20, is_new=True)  # another message
        account._check()
        assert [bool(peer.reasons) for peer in (slow, long, new)] == [True, False, False]
        assert "limits.frame_s" in slow.reasons[0]

    asyncio.run(play())
