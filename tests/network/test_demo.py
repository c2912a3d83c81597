"""`godwit demo`: the fleet roams over five real brokers, one is killed, and the books close without a fault."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

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


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_map_is_opened_in_a_browser_and_the_drive_goes_on_until_it_is_interrupted(tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    os.mkfifo(opened)
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-m", "godwit", "demo", "--open", "--seconds", "5"],
        env={**os.environ, "BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        url = opened.read_text().strip()
        with urlopen(url) as page:
            assert b"<title>Godwit" in page.read()
        demo.send_signal(signal.SIGINT)
        said, errors = demo.communicate(timeout=200)
    assert demo.returncode == 0, errors
    assert msgspec.json.decode(said.splitlines()[-1])["lost"] == 0
