"""Nothing that is stored or sent is a pickle: reading a file must run no code from it, and a format names its fields.

Spark alone ships functions to its workers by pickling them; that is its own affair, within one run.
"""

from collections.abc import Iterable, Iterator

import pytest

from tests.conventions.repository import Module, modules

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
ALLOWED_ROOMS = {"pipeline"}
STATE_METHODS = {"__getstate__", "__setstate__"}


def faults(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.room in ALLOWED_ROOMS:
            continue
        for line, name in module.imports:
            if name.partition(".")[0] in PICKLES:
                yield (
                    f"{module.name}:{line}: {name} stores live objects and runs code when it loads them: give the part "
                    "snapshot() and restore(), and write its state with godwit.codec"
                )
        for number, text in enumerate(module.text.splitlines(), 1):
            if any(f"def {method}" in text for method in STATE_METHODS):
                yield f"{module.name}:{number}: only pickles ask for this method: use snapshot() and restore()"


def test_nothing_is_pickled() -> None:
    assert list(faults(modules())) == []


@pytest.mark.parametrize(
    "text", ["import pickle", "from pickle import loads", "def f():\n    import marshal", "def __getstate__(self): ..."]
)
def test_a_pickle_is_caught(text: str) -> None:
    [fault] = faults([Module("broker/planted.py", text)])
    assert "snapshot()" in fault


def test_spark_may_pickle() -> None:
    assert list(faults([Module("pipeline/planted.py", "import pickle")])) == []
