"""Fetches the libraries of the dashboard again, by npm, and checks that they are what the list says.

`python -m tests.browser.vendor`: writes every file of `vendored.toml`. A file with another hash is an error, and then
nothing is written. With `--update` the list gets the hashes of what was fetched: for a new version in the list.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from godwit.dashboard.vendored_files import LIST, VENDOR, VendoredPackage, vendored_packages
from tests.conventions.repository import PACKAGE

FOLDER = PACKAGE / VENDOR


def fetched(package: VendoredPackage) -> dict[str, bytes]:
    """The files of a package as it was published, by their path in it."""
    with tempfile.TemporaryDirectory() as place:
        words = ["npm", "pack", "--silent", "--pack-destination", place, f"{package.name}@{package.version}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        [archive] = Path(place).iterdir()
        content = archive.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        members = {member.name.partition("/")[2]: opened.extractfile(member) for member in opened if member.isfile()}
        return {name: member.read() for name, member in members.items() if member is not None}


def main(words: list[str]) -> int:
    """Fetch all; 0 when they are what the list says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    update = parser.parse_args(words).update
    listed = (FOLDER / LIST).read_text(encoding="utf-8")
    contents: dict[str, bytes] = {}
    for package in vendored_packages():
        published = fetched(package)
        for file in package.files:
            content = contents[file.path] = published[file.source]
            found = hashlib.sha256(content).hexdigest()
            if found != file.sha256 and not update:
                print(f"{file.path}: {package.name} {package.version} has {found}, and the list {file.sha256}")
                return 1
            line = f'path = "{file.path}", source = "{file.source}", sha256 = "'
            listed = listed.replace(f'{line}{file.sha256}"', f'{line}{found}"')
        print(f"{package.name} {package.version}: {len(package.files)} files")
    for path, content in contents.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_bytes(content)
    (FOLDER / LIST).write_text(listed, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
