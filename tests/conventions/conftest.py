"""The trees of all modules are large: they are kept while conventions are checked, and no longer."""

from pathlib import Path

import pytest

from tests.conventions.repository import modules

HERE = Path(__file__).parent


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or HERE not in nextitem.path.parents:
        modules.cache_clear()
