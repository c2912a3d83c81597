"""The distribution `godwit-client`: the modules that a client needs, under a name of its own, with msgspec alone."""

import ast
import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conventions.repository import ROOT
from tests.network.serving import serving
from tests.network.waiting import run

BUILDER = ROOT / "clients" / "python" / "build_client.py"
PROGRAM = """
import asyncio, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("godwit", "numpy", "shapely", "lxml", "click"):
            raise ModuleNotFoundError(f"{name} is not there", name=name)

sys.meta_path.insert(0, Blocked())
import godwit_client

async def scene(address):
    async with godwit_client.connect(address, name="ann") as ann, godwit_client.connect(address, name="van") as van:
        prices = await ann.subscribe("price < 10 AND tags LIKE 'a%'")
        words = await ann.subscribe("kind = 'x' AND price > 3", language="cesql")
        van.publish({"price": 4, "tags": ["ab"], "kind": "x"})
        came = [(await each.next()).attributes["price"] for each in (prices, words)]
        try:
            await ann.subscribe("price > 3", language="cql2-text")
        except godwit_client.GodwitError as error:
            return came, str(error)

print(json.dumps(asyncio.run(scene(sys.argv[1]))))
"""


@pytest.fixture(scope="module")
def builder() -> Any:
    spec = importlib.util.spec_from_file_location("build_client", BUILDER)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_client_alone_publishes_and_subscribes_without_godwit(builder: Any, tmp_path: Path) -> None:
    builder.write_package(tmp_path / "godwit_client")
    path = os.pathsep.join([str(tmp_path), str(Path(msgspec.__file__).parents[1])])

    async def scene() -> None:
        async with serving("--native", "127.0.0.1:0", "--mqtt", "", "--http", "", folder=tmp_path) as broker:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROGRAM, str(broker.native)),
                env={**os.environ, "PYTHONPATH": path},
                stdout=asyncio.subprocess.PIPE,
            )
            printed, _ = await process.communicate()
        came, error = json.loads(printed)
        assert came == [4, 4]
        assert error == "the language 'cql2-text' needs numpy, which is not installed"

    run(scene())


def test_no_module_of_the_client_imports_one_of_godwit(builder: Any, tmp_path: Path) -> None:
    builder.write_package(tmp_path)
    for file in tmp_path.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.partition(".")[0] == "godwit"], file


def test_a_client_has_no_broker_and_no_listener(builder: Any) -> None:
    assert {"godwit.broker.messages", "godwit.client.client", "godwit.languages.cesql"} <= builder.needed()
    assert not {"godwit.broker.broker", "godwit.runtime.node", "godwit.cli"} & builder.needed()


def test_imports_are_renamed_and_what_is_on_the_wire_is_not(builder: Any) -> None:
    text = 'import godwit.seen\n    from godwit import event\nimport_module(f"godwit.{x}")\nTYPE = "godwit.event"\n'
    assert builder.renamed(text) == (
        "import godwit_client.seen\n    from godwit_client import event\n"
        'import_module(f"godwit_client.{x}")\nTYPE = "godwit.event"\n'
    )
