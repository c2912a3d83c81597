"""The client that brokers serve is what its source gives, is small, and comes with types; `npm pack` packs it."""

import gzip
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.browser.stations import CLIENT, need
from tests.conventions.repository import ROOT

SOURCE = ROOT / "clients" / "browser"
BYTES_MAX = 15_000
BUILT = ("node_modules", "dist", "LICENSE")

CONSUMER = """
import { connect, Refused } from "godwit-client";
const client = connect("http://b1.example", { name: "c" });
for await (const event of client.subscribe<{ n: number }>("n > 0")) {
  const n: number = event.attributes.n;
  // @ts-expect-error: a number is not a text
  const text: string = event.attributes.n;
  console.log(n, text, event.payload?.length);
}
for await (const item of client.subscribe("n > 0", { receipts: true })) {
  console.log(item.kind === "receipt" ? item.lost.length : item.attributes["n"]);
}
const id = await client.publish({ at: new Date(), place: { lon: 8, lat: 47 }, tags: ["a"] }, { expiresInS: 3 });
console.log(id.sequence, Refused);
"""


def npm(folder: Path, *words: str) -> str:
    """What npm says, in a folder."""
    ran = subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from a copy of its source."""
    need(shutil.which("npm"), "npm")
    root = tmp_path_factory.mktemp("repository")
    folder = root / "clients" / "browser"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns(*BUILT))
    shutil.copy(ROOT / "LICENSE", root)
    if (SOURCE / "node_modules").is_dir():
        (folder / "node_modules").symlink_to(SOURCE / "node_modules")
    elif os.environ.get("APT"):
        npm(folder, "ci", "--no-audit", "--no-fund")
    else:
        pytest.skip("clients/browser/node_modules is missing: `make client` installs the compilers")
    npm(folder, "run", "build")
    return folder


def test_brokers_serve_what_the_source_gives(package: Path) -> None:
    assert (package / "dist" / "client.js").read_bytes() == CLIENT.read_bytes(), "run `make client`"


def test_the_client_is_small() -> None:
    content = CLIENT.read_bytes()
    print(f"client.js: {len(content):,} bytes, {len(gzip.compress(content, 9)):,} with gzip")
    assert len(content) < BYTES_MAX


def test_the_client_imports_nothing_and_names_no_host() -> None:
    text = CLIENT.read_text(encoding="utf-8")
    assert not re.search(r"\bimport\b", text)
    assert set(re.findall(r"(?:https?|wss?)://[\w.:]+", text)) <= {"http://127.0.0.1:7080"}  # an example in an error


def test_a_package_is_packed_with_its_types_and_licence(package: Path, tmp_path: Path) -> None:
    [packed] = json.loads(npm(package, "pack", "--ignore-scripts=false", "--json", "--pack-destination", str(tmp_path)))
    names = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "LICENSE", "dist/client.js", "dist/types/index.d.ts"} <= names
    assert not [name for name in names if name.startswith(("src/", "node_modules/"))]
    about = json.loads((package / "package.json").read_text())
    assert about["license"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert "dependencies" not in about
    exact = re.compile(r"\d+\.\d+\.\d+")
    assert all(exact.fullmatch(version) for version in about["devDependencies"].values())


def test_a_program_in_typescript_sees_the_types(package: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "godwit-client").symlink_to(package)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "consumer.ts").write_text(CONSUMER)
    compiler = package / "node_modules" / ".bin" / "tsc"
    options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom",
        "--types",
        "",
    ]
    ran = subprocess.run([compiler, *options, "consumer.ts"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
