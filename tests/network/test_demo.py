"""`godwit demo`: the fleet roams over five real brokers, one is killed, and the books close without a fault."""

import subprocess
import sys

import msgspec
import pytest


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_demonstration_ends_without_a_fault() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "godwit", "demo", "--seconds", "20"],
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = msgspec.json.decode(done.stdout.splitlines()[-1])
    assert (said["lost"], said["duplicated"], said["out of order"]) == (0, 0, 0)
    assert said["published"] > 500
    assert said["hand-overs"] > 20
    assert said["hand-overs while a broker was down"] > 0
