import random
import subprocess
import sys

import pytest

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.matching import access_paths, batch_kernels, kernels, rewriting
from godwit.matching.index_matcher import IndexMatcher
from godwit.matching.warm_up import warm_up

FORMS = (
    "a = {i}",
    "a > {i} AND b < {i}",
    "t LIKE '%x{i}_y%'",
    "a IN ({i}, {j}) OR c = '{i}'",
    "NOT a = {i} AND b BETWEEN {i} AND {j}",
    "b IS NOT NULL AND (a = {i} OR b = {i}) AND (c = 'x' OR d = {i})",
)


def loaded() -> set[str]:
    """The kernels that were called from Python, with the types of their arguments."""
    named = [named for module in (kernels, batch_kernels, access_paths, rewriting) for named in vars(module).items()]
    return {f"{name}{signature}" for name, kernel in named for signature in getattr(kernel, "signatures", ())}


def live() -> None:
    """An index grows, changes, is asked and shrinks."""
    drawn, ids, matcher = random.Random(1), list[int](), IndexMatcher()
    for i in range(2_500):
        matcher.add(i, parse(FORMS[i % len(FORMS)].format(i=i, j=i + 3)))
        ids.append(i)
        while len(ids) > 1_000 or (i > 2_000 and len(ids) > 50):
            matcher.remove(ids.pop(drawn.randrange(len(ids))))
        if i % 41 == 0:
            several = [1, drawn.randrange(99)]
            matcher.match(event({"a": drawn.randrange(99), "b": several, "c": "x", "t": "x1zy", "d": 1.5}))
    matcher.prepare()


@pytest.mark.skipif(not kernels.COMPILED, reason="nothing is compiled")
def test_no_kernel_is_loaded_while_an_index_lives_after_the_warm_up() -> None:
    # In a process of its own: what another test has called is loaded already.
    command = [sys.executable, "-m", "tests.unit.matching.test_warm_up"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "none\n"


if __name__ == "__main__":
    warm_up()
    before = loaded()
    assert before
    live()
    print(", ".join(sorted(loaded() - before)) or "none")
