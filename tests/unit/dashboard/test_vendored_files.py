"""The libraries of the dashboard are what the list says, with their licences, and modules find each other."""

import re
from hashlib import sha256

from godwit.dashboard.vendored_files import LIST, VENDOR, import_map, vendored_packages
from tests.conventions.repository import PACKAGE

FOLDER = PACKAGE / VENDOR
LICENCES = {"Apache-2.0", "BSD-2-Clause", "ISC", "MIT"}  # all may go along with Apache-2.0
IMPORT = re.compile(r"""\bfrom\s*["']([^"']+)["']""")


def test_each_file_is_on_the_list_with_its_hash() -> None:
    listed = {file.path: file.sha256 for package in vendored_packages() for file in package.files}
    found = {
        path.relative_to(FOLDER).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name != LIST
    }
    assert found == listed


def test_each_package_has_an_exact_version_and_the_text_of_its_licence() -> None:
    for package in vendored_packages():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package.version)
        assert package.licence in LICENCES
        [licence] = [file for file in package.files if file.source == "LICENSE"]
        assert len((FOLDER / licence.path).read_text(encoding="utf-8")) > 500


def test_whatever_a_module_imports_is_in_the_import_map() -> None:
    known = import_map("/vendor/")["imports"]
    assert known["preact"] == "/vendor/preact/preact.mjs"
    modules = [file for package in vendored_packages() for file in package.files if file.module]
    assert {path.removeprefix("/vendor/") for path in known.values()} == {file.path for file in modules}
    for file in modules:
        imported = IMPORT.findall((FOLDER / file.path).read_text(encoding="utf-8"))
        assert set(imported) <= set(known), file.path
