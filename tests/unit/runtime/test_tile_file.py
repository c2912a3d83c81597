"""Tiles are read from a file where the format says they are, and a damaged file is an error, no more."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from godwit.errors import GodwitError
from godwit.runtime.tile_file import TileFile, TileFileError, tile_number
from tests.unit.runtime.tile_files import VECTOR, write_tiles

TILES = {(0, 0, 0): b"world", (1, 0, 0): b"north west", (1, 1, 1): b"south east", (3, 5, 2): b"town"}


def test_tiles_are_numbered_level_by_level_along_a_curve() -> None:
    assert [tile_number(1, *at) for at in ((0, 0), (0, 1), (1, 1), (1, 0))] == [1, 2, 3, 4]
    assert tile_number(18, 137_000, 91_000) == 81_276_137_173  # as the format's own library says
    seen = [tile_number(level, x, y) for level in range(5) for x in range(1 << level) for y in range(1 << level)]
    assert sorted(seen) == list(range(len(seen)))


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("is_deep", [True, False])
def test_each_tile_is_found_and_no_other(tmp_path: Path, is_packed: bool, is_deep: bool) -> None:
    file = TileFile(write_tiles(tmp_path / "t.pmtiles", TILES, is_packed=is_packed, is_deep=is_deep))
    assert file.content_type == "image/png"
    for at, data in TILES.items():
        assert file.tile(*at) == data
    for at in ((1, 0, 1), (2, 0, 0), (3, 5, 3), (4, 0, 0), (1, 2, 0), (1, -1, 0), (40, 0, 0)):
        assert file.tile(*at) is None
    file.close()


def test_what_cannot_be_shown_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(TileFileError, match="vector tiles: allowed are pictures"):
        TileFile(write_tiles(tmp_path / "v.pmtiles", TILES, kind=VECTOR))
    (tmp_path / "none").write_bytes(b"PK\x03\x04" * 100)
    with pytest.raises(TileFileError, match="is not a PMTiles file"):
        TileFile(tmp_path / "none")
    with pytest.raises(TileFileError, match="cannot be read"):
        TileFile(tmp_path / "missing")


def test_a_damaged_file_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    whole = write_tiles(tmp_path / "t.pmtiles", TILES, is_deep=True).read_bytes()
    for at in range(8, len(whole), 3):
        for spoilt in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            (tmp_path / "spoilt").write_bytes(spoilt)
            with suppress(GodwitError), closing(TileFile(tmp_path / "spoilt")) as file:
                for tile in TILES:
                    file.tile(*tile)
