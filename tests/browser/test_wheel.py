"""The wheel that people install has the client for browsers, the pages of a team, and their libraries, as they are."""

import re
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from godwit.dashboard.vendored_files import LIST, VENDOR, vendored_packages
from godwit.runtime.dashboard_files import WEB as DASHBOARD
from godwit.runtime.static_files import CLIENT
from godwit.teamwork.web_files import PAGE, SHARED, WEB
from tests.conventions.repository import PACKAGE, ROOT

WORDS = {
    "MIT": "Permission is hereby granted, free of charge, to any person",
    "ISC": "Permission to use, copy, modify, and/or distribute this software",
    "BSD-2-Clause": "Redistribution and use in source and binary forms",
    "Apache-2.0": "Apache License",
}
"""What a licence file says, by the short name of the licence."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is in the wheel, by path."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    [built] = Path(folder).glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_the_client_is_in_the_wheel(wheel: dict[str, bytes]) -> None:
    assert wheel[f"godwit/{CLIENT}"] == (PACKAGE / CLIENT).read_bytes()


def test_each_library_is_in_the_wheel_with_its_licence_and_nothing_else(wheel: dict[str, bytes]) -> None:
    listed = {f"godwit/{VENDOR}/{file.path}": file.sha256 for package in vendored_packages() for file in package.files}
    found = {
        name: sha256(content).hexdigest()
        for name, content in wheel.items()
        if name.startswith(f"godwit/{VENDOR}/") and not name.endswith(LIST)
    }
    assert found == listed
    assert f"godwit/{VENDOR}/{LIST}" in wheel


def test_the_list_in_the_wheel_has_the_version_and_the_licence_of_each_library(wheel: dict[str, bytes]) -> None:
    listed = tomllib.loads(wheel[f"godwit/{VENDOR}/{LIST}"].decode())["packages"]
    assert {each["name"] for each in listed} == {each.name for each in vendored_packages()}
    for package in listed:
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"]), package["name"]
        [text] = [wheel[f"godwit/{VENDOR}/{file['path']}"] for file in package["files"] if "LICENSE" in file["path"]]
        assert WORDS[package["licence"]] in " ".join(text.decode().split()), package["name"]


def test_a_wheel_takes_no_sources_of_the_client_along(wheel: dict[str, bytes]) -> None:
    assert [name for name in wheel if name.endswith((".ts", "package.json")) or "node_modules" in name] == []


def test_the_pages_of_a_team_are_in_the_wheel_with_what_they_share(wheel: dict[str, bytes]) -> None:
    pages = {path.relative_to(PACKAGE.parent).as_posix() for path in (PACKAGE / WEB).rglob("*") if path.is_file()}
    assert f"godwit/{PAGE}" in pages
    assert {name for name in wheel if name.startswith(f"godwit/{WEB}/")} == pages
    assert all(f"godwit/{DASHBOARD}/{path}" in wheel for path in SHARED)
