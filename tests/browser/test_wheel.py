"""The wheel that people install has the client for browsers and the libraries of the dashboard, as they are here."""

import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from godwit.dashboard.vendored_files import LIST, VENDOR, vendored_packages
from godwit.runtime.static_files import CLIENT
from tests.conventions.repository import PACKAGE, ROOT


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


def test_a_wheel_takes_no_sources_of_the_client_along(wheel: dict[str, bytes]) -> None:
    assert [name for name in wheel if name.endswith((".ts", "package.json")) or "node_modules" in name] == []
