"""Bitmaps grow a few rows at a time, and lose nothing."""

from random import Random

import numpy as np
import pytest

from godwit.matching.bitmaps import PIECE_BYTES, GrowingMaps, Maps, cleared, new_maps

WORDS = 64


def write(maps: Maps, draw: Random, first: int, last: int) -> None:
    """Set some bits of the conjunctions first..last, as a placing does."""
    for conjunction in range(first, last):
        word, bit = conjunction // 64, np.uint64(1 << conjunction % 64)
        for each in maps:
            rows = each.reshape(-1, each.shape[-1])
            rows[draw.randrange(len(rows)), word] |= bit


@pytest.mark.parametrize("seed", range(20))
def test_all_bits_are_in_the_larger_bitmaps_and_few_rows_are_copied_at_a_time(seed: int) -> None:
    draw = Random(seed)
    maps = new_maps(64 * WORDS, 3, 2, 30)
    for _ in cleared(maps):
        pass
    used = 64 * WORDS * 3 // 4
    write(maps, draw, 0, used)
    assert GrowingMaps.is_time(maps, used)
    rows, room = 2 * 4 * 32 + 2, 64 * WORDS - used
    growing, most = GrowingMaps(maps, used), draw.choice([1, 7, 60, 200])
    while used < 64 * WORDS:
        placed = min(draw.randint(1, most), 64 * WORDS - used)
        write(maps, draw, used, used + placed)
        used += placed
        assert growing.go_on(used, placed) <= -(-rows * 8 * placed // room)
    grown = growing.finish()
    for old, new in zip(maps, grown, strict=True):
        assert new.shape[-1] > old.shape[-1]
        assert (new[..., : old.shape[-1]] == old).all()
        assert not new[..., old.shape[-1] :].any()


def test_when_the_room_runs_out_little_is_left_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = new_maps(64 * WORDS, 3, 2, 30)
    used = 64 * WORDS * 3 // 4
    growing = GrowingMaps(maps, used)
    while used < 64 * WORDS:
        used += 8
        growing.go_on(used, 8)
    copied: list[int] = []
    monkeypatch.setattr(GrowingMaps, "_copy", lambda self, first, last, to: copied.append(to - self._from))
    growing.finish()
    assert sum(copied) <= WORDS // 8


@pytest.mark.parametrize("used", [0, 5, 64, 100])
def test_bitmaps_that_never_grew_ahead_are_copied_at_the_end(used: int) -> None:
    maps = new_maps(128, 2, 0, 4)
    for each in maps:
        each[:] = 0
    write((*maps[:2], maps[0]), Random(1), 0, used)
    for old, new in zip(maps, GrowingMaps(maps, used).finish(), strict=True):
        assert (new[..., :2] == old).all()
        assert not new[..., 2:].any()


def test_bitmaps_are_cleared_a_piece_at_a_time() -> None:
    maps = new_maps(64 * 4_096, 20, 1, 64)
    for each in maps:
        each[:] = 7
    pieces = sum(1 for _ in cleared(maps))
    assert pieces >= sum(each.nbytes for each in maps) // PIECE_BYTES
    assert not any(each.any() for each in maps)
