"""The add-on for Home Assistant is complete, and its options become users. Home Assistant itself is not run."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from godwit.runtime.configuration import load
from godwit.runtime.users import read_users
from tests.conventions.repository import ROOT

ADDON = ROOT / "deploy" / "home_assistant" / "godwit"
CONFIG = yaml.safe_load((ADDON / "config.yaml").read_text(encoding="utf-8"))


def prepare(data: Path) -> list[str]:
    spec = importlib.util.spec_from_file_location("addon_run", ADDON / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    words: list[str] = module.prepare(data)
    return words


def test_options_become_users_and_those_that_were_removed_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    options = {**CONFIG["options"], "users": [{"name": "home", "password": "correct horse battery", "admin": True}]}
    (tmp_path / "options.json").write_text(json.dumps(options))
    assert prepare(tmp_path) == ["serve", str(ADDON / "broker.toml"), "--log-level", "info"]
    users = tmp_path / "users.toml"
    assert users.stat().st_mode & 0o077 == 0
    assert "correct horse" not in users.read_text()
    assert list(read_users(users.read_text(), "users.toml")) == ["home"]
    (tmp_path / "options.json").write_text(json.dumps(CONFIG["options"]))
    prepare(tmp_path)
    assert list(read_users(users.read_text(), "users.toml")) == []


def test_the_ports_of_the_add_on_are_those_of_its_broker() -> None:
    text = (ADDON / "broker.toml").read_text(encoding="utf-8")
    ports = {name.partition("/")[0] for name in CONFIG["ports"]}
    assert all(f'"0.0.0.0:{port}"' in text for port in ports)
    assert CONFIG["ports"].keys() == CONFIG["ports_description"].keys()
    assert CONFIG["options"].keys() == CONFIG["schema"].keys()


def test_the_configuration_of_the_add_on_has_only_keys_that_exist(tmp_path: Path) -> None:
    (tmp_path / "users.toml").touch(mode=0o600)
    load(str(ADDON / "broker.toml"), {"GODWIT_SECURITY__USERS": str(tmp_path / "users.toml")}, [])
