"""What is meant for systemd is accepted by systemd."""

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from godwit.cli.main import app

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "godwit.service"
NOT_INSTALLED_HERE = "is not executable"  # the program that the unit starts


def faults(unit: Path) -> list[str]:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False, timeout=120
    )
    return [line for line in done.stderr.splitlines() if unit.name in line and NOT_INSTALLED_HERE not in line]


needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@needs_systemd
def test_systemd_accepts_the_unit() -> None:
    assert faults(UNIT) == []


@needs_systemd
def test_a_setting_that_systemd_does_not_know_is_caught(tmp_path: Path) -> None:
    planted = tmp_path / UNIT.name
    planted.write_text(UNIT.read_text().replace("ProtectSystem=strict", "ProtectSystems=strict"))
    assert len(faults(planted)) == 1


def test_the_command_of_the_unit_has_only_options_that_exist() -> None:
    (line,) = (line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    program, command, *words = shlex.split(line.partition("=")[2])
    assert Path(program).name == "godwit"
    serve = vars(app)["commands"][command]
    context: Any = serve.make_context(command, words)
    assert context.params["file"] == "/etc/godwit/broker.toml"
