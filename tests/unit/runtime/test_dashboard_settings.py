"""What operators say for the dashboard: read as in filters, told to pages, and wrong values are faults."""

from pathlib import Path

import pytest

from godwit.errors import ConfigurationError
from godwit.filters.values import Point
from godwit.runtime.configuration import Configuration, load
from godwit.runtime.dashboard_files import content_security_policy
from godwit.runtime.dashboard_settings import DashboardSettings, dashboard_settings
from tests.unit.runtime.tile_files import VECTOR, write_tiles


def read(folder: Path, text: str) -> DashboardSettings:
    configuration = loaded(folder, text)
    return dashboard_settings(configuration.settled, configuration.made(0).movements())


def loaded(folder: Path, text: str) -> Configuration:
    (folder / "broker.toml").write_text(text)
    return load(folder / "broker.toml")


def test_a_broker_tells_where_it_stands_and_which_area_it_serves(tmp_path: Path) -> None:
    (tmp_path / "town.json").write_text('{"places": {"market": [8.54, 47.37], "lake": [8.55, 47.36]}, "edges": []}')
    stands = '[broker]\nposition = "point(8.54, 47.37)"\narea = "circle(8.54, 47.37, 900)"\n'
    found = read(tmp_path, f'{stands}[places]\nlocation = "town.json"\n')
    told = found.told()
    assert told["position"] == {"lon": 8.54, "lat": 47.37}
    assert told["area"] == {"circle": [8.54, 47.37, 900]}
    assert told["tiles"] is None
    assert found.places == {"market": Point(8.54, 47.37), "lake": Point(8.55, 47.36)}
    assert read(tmp_path, "").told() == {"position": None, "area": None, "tiles": None}


def test_pages_may_load_pictures_from_the_tile_server_that_is_set_and_from_no_other(tmp_path: Path) -> None:
    url = "https://tiles.example:8443/{z}/{x}/{y}.png?key=1"
    found = read(tmp_path, f'[dashboard]\ntiles_url = "{url}"\ntiles_attribution = "© somebody"\n')
    assert found.told()["tiles"] == {"url": url, "attribution": "© somebody", "levels": None}
    assert found.tiles_origin == "https://tiles.example:8443"
    rules = dict(rule.split(" ", 1) for rule in content_security_policy(found.tiles_origin).split("; "))
    assert rules["img-src"] == "'self' data: https://tiles.example:8443"
    without = dict(rule.split(" ", 1) for rule in content_security_policy().split("; "))
    assert without == rules | {"img-src": "'self' data:"}


def test_a_file_of_tiles_is_meant_from_the_folder_of_the_configuration(tmp_path: Path) -> None:
    write_tiles(tmp_path / "town.pmtiles", {(0, 0, 0): b"world"}, level_max=5)
    found = read(tmp_path, '[dashboard]\ntiles_file = "town.pmtiles"\n')
    assert found.tiles is not None
    assert found.tiles.tile(0, 0, 0) == b"world"
    assert found.told()["tiles"] == {"url": "/tiles/{z}/{x}/{y}", "attribution": "", "levels": [0, 5]}
    assert found.tiles_origin == ""
    found.tiles.close()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[broker]\nposition = "8.5, 47"\n', r"broker.toml:2: broker.position is '8.5, 47': allowed is point\("),
        ('[broker]\nposition = "point(300, 47)"\n', r"allowed is point\("),
        ('[broker]\nposition = "point(8, 47) OR x = 1"\n', r"allowed is point\("),
        ("[broker]\narea = \"places('market')\"\n", r"broker.area .* allowed is circle\("),
        ('[broker]\narea = "circle(8, 47)"\n', r"allowed is circle\("),
        ('[dashboard]\ntiles_url = "https://tiles.example/a.png"\n', r"allowed is an address as in"),
        ('[dashboard]\ntiles_url = "https://{s}.tiles.example/{z}/{x}/{y}.png"\n', r"allowed is an address as in"),
        ('[dashboard]\ntiles_url = "https://a.example/{z}/{x}/{y}; script-src *"\n', r"allowed is an address as in"),
        ('[dashboard]\ntiles_file = "none.pmtiles"\n', r"none.pmtiles cannot be read"),
        ('[dashboard]\ntiles_file = "vector.pmtiles"\n', r"vector tiles: allowed are pictures"),
    ],
)
def test_what_cannot_be_meant_is_a_fault(tmp_path: Path, text: str, fault: str) -> None:
    write_tiles(tmp_path / "vector.pmtiles", {(0, 0, 0): b"x"}, kind=VECTOR)
    with pytest.raises(ConfigurationError, match=fault):
        loaded(tmp_path, text)


def test_one_source_of_tiles_is_enough(tmp_path: Path) -> None:
    write_tiles(tmp_path / "town.pmtiles", {(0, 0, 0): b"world"})
    text = '[dashboard]\ntiles_url = "https://a.example/{z}/{x}/{y}"\ntiles_file = "town.pmtiles"\n'
    with pytest.raises(ConfigurationError, match="allowed is one of them"):
        loaded(tmp_path, text)
