"""Libraries of other people that the pages use: which they are, and where they lie.

*Theory.* `web/vendor/vendored.toml` lists each package with its version and licence, and each of its files with its
path in the package and its SHA-256. The files are what was published, byte for byte: `make vendor` fetches them again.
Pages load modules by the names under which libraries import each other (`preact`, `htm`), through an import map.

*Rules.*
1. A file in `web/vendor` is on the list, or is the list.
2. Each package has its licence text beside it.
"""

import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

__all__ = ["VENDOR", "VendoredFile", "VendoredPackage", "import_map", "vendored_packages"]

VENDOR = "dashboard/web/vendor"
LIST = "vendored.toml"


class VendoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a package."""

    path: str  # below web/vendor
    source: str  # in the package
    sha256: str
    module: str = ""  # the name by which it is imported; "": not a module


class VendoredPackage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A package, as its authors have published it."""

    name: str
    version: str
    licence: str  # by its SPDX identifier
    files: tuple[VendoredFile, ...]  # the licence text is one of them


@cache
def vendored_packages() -> tuple[VendoredPackage, ...]:
    """All of them."""
    said: dict[str, Any] = tomllib.loads(folder().joinpath(LIST).read_text(encoding="utf-8"))
    return msgspec.convert(said["packages"], tuple[VendoredPackage, ...])


def folder() -> Traversable:
    """Where the files are."""
    return files("godwit").joinpath(VENDOR)


def import_map(prefix: str) -> dict[str, dict[str, str]]:
    """What a page says so that modules find each other, if the files are served below `prefix`."""
    found = [file for package in vendored_packages() for file in package.files if file.module]
    return {"imports": {file.module: f"{prefix}{file.path}" for file in found}}
