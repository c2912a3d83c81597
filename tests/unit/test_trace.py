"""Traces: what is written is read again, equal rows give equal bytes, and every field and kind is explained."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from godwit import __version__, trace
from godwit.errors import GodwitError
from godwit.trace import KINDS, Record, TraceWriter, read, schema
from tests.conventions.repository import ROOT, modules

PAGE = (ROOT / "docs" / "reference" / "trace_format.md").read_text(encoding="utf-8")

ROWS = [
    (0.0, "b1", Record("link_up", "b2")),
    (0.25, "c1", Record("published", publisher="c1", sequence=3, size=80)),
    (1 / 3, "b1", Record("closed", "b2", detail="too many → frames")),
]


def written(folder: Path, rows: list[tuple[float, str, Record]]) -> Path:
    with TraceWriter(folder, {"scenario": {"name": "x"}, "seed": 7}) as sink:
        for at, node, record in rows:
            sink.write(at, node, record)
    return folder


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    table = read(written(tmp_path / "deep" / "out", ROWS))
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert found == [(at, node, *msgspec.structs.astuple(record)) for at, node, record in ROWS]
    assert table.schema.names == schema().names
    assert read(tmp_path / "deep" / "out" / "trace.parquet").equals(table)


def test_the_scenario_stands_beside_it_with_seed_and_version(tmp_path: Path) -> None:
    folder = written(tmp_path, [])
    assert trace.about(folder) == {"scenario": {"name": "x"}, "seed": 7, "version": __version__}
    assert json.loads((folder / "scenario.json").read_text()) == trace.about(folder)


def test_an_empty_trace_has_the_columns(tmp_path: Path) -> None:
    table = read(written(tmp_path, []))
    assert (table.num_rows, table.schema.names) == (0, schema().names)


def test_rows_go_out_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(trace, "GROUP_ROWS", 10)
    folder = written(tmp_path, [(float(n), f"b{n}", Record("handled", number=n)) for n in range(25)])
    assert pq.ParquetFile(folder / "trace.parquet").num_row_groups == 3
    assert read(folder)["number"].to_pylist() == list(range(25))
    assert read(folder)["node"].to_pylist() == [f"b{n}" for n in range(25)]


def test_what_was_written_before_an_error_can_be_read(tmp_path: Path) -> None:
    def failing() -> None:
        with TraceWriter(tmp_path, {}) as sink:
            sink.write(*ROWS[0])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert read(tmp_path).num_rows == 1


def test_equal_rows_give_equal_bytes_however_texts_are_hashed(tmp_path: Path) -> None:
    code = """
import sys
from godwit.trace import Record, TraceWriter
with TraceWriter(sys.argv[1], {"scenario": {"b": 1, "a": {"z": 1, "y": 2}}, "seed": 1}) as sink:
    for n in range(3_000):
        sink.write(n / 7, f"b{n % 9}", Record("handled", f"b{n % 5}", "Publish", f"c{n % 50}", n, detail=str(n % 3)))
"""
    files = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        subprocess.run([sys.executable, "-c", code, str(folder)], env={"PYTHONHASHSEED": seed}, check=True)
        files.append([(folder / name).read_bytes() for name in ("trace.parquet", "scenario.json")])
    assert files[0] == files[1]


def test_a_kind_that_is_not_known_is_caught(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, {}) as sink, pytest.raises(AssertionError):
        sink.write(0.0, "b1", Record("sneezed"))


@pytest.mark.parametrize("text", ["", "no parquet"])
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "trace.parquet").write_text(text)
    with pytest.raises(GodwitError, match="cannot read the trace"):
        read(tmp_path)
    with pytest.raises(GodwitError, match="cannot read the trace"):
        read(tmp_path / "gone")
    with pytest.raises(GodwitError, match=r"scenario\.json"):
        trace.about(tmp_path)


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), tmp_path / "trace.parquet")
    with pytest.raises(GodwitError, match="is not a trace: its columns are x"):
        read(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GodwitError, match="cannot write a trace"):
        TraceWriter(tmp_path / "file" / "out", {})


# ---------------------------------------------------------------- the page


def first_column(page: str, heading: str) -> dict[str, str]:
    """By the name in the first column of the table under a heading, the rest of the row."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))


def test_the_page_explains_every_field_and_no_other() -> None:
    fields = ["at", "node", *(field.name for field in msgspec.structs.fields(Record))]
    assert list(first_column(PAGE, "Fields")) == fields == schema().names


def test_the_page_explains_every_kind_in_the_same_words() -> None:
    assert first_column(PAGE, "Kinds") == KINDS


def test_a_missing_field_is_caught() -> None:
    assert list(first_column("\n## Fields\n\n| field | is |\n|---|---|\n| `at` | time |\n\n## Kinds\n", "Fields")) == [
        "at"
    ]


def name_of(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def kinds_used(text: str) -> set[str]:
    """The kinds of the records that a module makes."""
    return {
        argument.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and name_of(node.func) in ("Record", "_record") and node.args
        for argument in ast.walk(node.args[0])
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_every_record_that_is_made_is_of_a_known_kind() -> None:
    # To read every module takes seconds. The records of a team are of another class.
    makers = [module for module in modules() if "ecord(" in module.text and not module.name.startswith("teamwork/")]
    used = {kind: module.name for module in makers for kind in kinds_used(module.text)}
    assert used
    assert {kind: name for kind, name in used.items() if kind not in KINDS} == {}


def test_a_record_of_an_unknown_kind_is_caught() -> None:
    assert kinds_used("x = [Record('sneezed' if y else 'handled', peer='b1')]") == {"sneezed", "handled"}
    assert kinds_used("self._record('yawned', event)") == {"yawned"}
