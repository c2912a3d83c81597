"""`godwit team demo`: the story over three real brokers, and the books close without a fault."""

import subprocess
import sys

import msgspec
import pytest

STEPS = ["network", "team", "community", "offline", "search", "announcement", "conflict", "leaving"]


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_demonstration_ends_without_a_fault() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "godwit", "team", "demo"], capture_output=True, text=True, timeout=270, check=False
    )
    assert done.returncode == 0, done.stderr
    *steps, books = map(msgspec.json.decode, done.stdout.splitlines())
    assert [step["step"] for step in steps] == STEPS
    assert (books["lost"], books["leaked"], books["found"]) == (0, 0, 2)
    assert books["delivered"] > 30
    assert books["refused"] > 5
