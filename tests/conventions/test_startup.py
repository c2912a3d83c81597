"""`godwit --help` answers at once: the command line loads nothing heavy until a command needs it. Nor does a client."""

import subprocess
import sys

HEAVY = {
    "numpy",
    "numba",
    "shapely",
    "dd",
    "networkx",
    "msgspec",
    "pyspark",
    "pyarrow",
    "pandas",
    "asyncio",
}


def heavy_modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return HEAVY & {name.partition(".")[0] for name in loaded.stdout.split()}


def test_the_command_line_loads_nothing_heavy() -> None:
    assert heavy_modules_loaded_by("import godwit.cli.main") == set()


def test_a_client_loads_no_matcher_and_no_broker() -> None:
    assert heavy_modules_loaded_by("import godwit; godwit.connect") == {"asyncio", "msgspec"}
    code = "import godwit, sys; godwit.connect; print('godwit.broker.broker' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert said.strip() == "False"


def test_a_heavy_import_is_caught() -> None:
    assert heavy_modules_loaded_by("import msgspec") == {"msgspec"}
