"""What the compose file mounts and runs works. No container is built or started here.

The files are parsed, the commands are read by the command line, the secrets are made by the script that makes them in
the container, and three brokers run from the mounted configurations, on other addresses.
"""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from godwit.cli.main import app
from godwit.runtime.connecting import connect
from tests.conventions.repository import ROOT
from tests.network.serving import Served, serving
from tests.network.waiting import run

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SCRAPE = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8"))
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
BROKERS = ("b1", "b2", "b3")
CONFIGURATION = "/etc/godwit/broker.toml"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction of a Dockerfile with its arguments, on one line."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in kept.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, " ".join(rest.split())


def stages(text: str) -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions(text):
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append((name, rest))
    return found


def understood(words: list[str]) -> None:
    """`godwit` with these words has such a command and such options, or an error says which it has not."""
    command: Any = app
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


def mounts(service: str) -> dict[str, str]:
    """What is mounted where."""
    return {place: what for what, place, *_ in (line.split(":") for line in COMPOSE["services"][service]["volumes"])}


def prepared(folder: Path) -> Path:
    """The folder /etc/godwit as the brokers see it, with what prepare.sh has made."""
    for name in ("secrets", "scrape"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["sh", str(DEPLOY / "compose" / "prepare.sh"), str(folder / "secrets"), str(folder / "scrape")],
        env={**os.environ, "PATH": programs},
        check=True,
        capture_output=True,
        timeout=600,
    )
    return folder


@pytest.fixture(scope="module")
def etc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepared(tmp_path_factory.mktemp("etc"))
    for name in BROKERS:
        shutil.copy(DEPLOY / mounts(name)[CONFIGURATION], folder / f"{name}.toml")
    return folder


# ---------------------------------------------------------------- the image


def test_the_image_has_two_stages_and_runs_as_a_user_without_rights() -> None:
    build, final = stages(DOCKERFILE.read_text(encoding="utf-8"))
    assert build[0][1].endswith(" AS build")
    said = dict(final)
    assert said["USER"] == "10001:10001"
    order = [name for name, _ in final]
    assert order.index("USER") < order.index("ENTRYPOINT")
    assert said["VOLUME"] == said["WORKDIR"] == "/var/lib/godwit"
    assert json.loads(said["ENTRYPOINT"]) == ["godwit"]
    understood(json.loads(said["CMD"]))
    assert json.loads(said["CMD"])[1] == CONFIGURATION


def test_all_that_the_image_is_made_of_is_in_the_checkout() -> None:
    for stage in stages(DOCKERFILE.read_text(encoding="utf-8")):
        for name, rest in stage:
            if name == "COPY" and not rest.startswith("--from"):
                assert (ROOT / rest.split()[0]).exists(), rest


def test_a_wheel_can_be_built_from_what_the_build_is_given(tmp_path: Path) -> None:
    given = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name in (line[1:] for line in given if line.startswith("!")):
        copy = tmp_path / "checkout" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=tmp_path / "checkout",
        check=True,
        capture_output=True,
        timeout=600,
    )
    assert len(list(tmp_path.glob("godwit-*.whl"))) == 1
    assert (tmp_path / "checkout" / "requirements.lock").exists()  # the versions that were tested


def test_the_configuration_of_the_image_is_valid() -> None:
    checked(DEPLOY / "docker" / "broker.toml")


def test_an_option_that_does_not_exist_is_caught() -> None:
    with pytest.raises(Exception, match="No such option"):
        understood(["serve", CONFIGURATION, "--logformat", "json"])
    with pytest.raises(KeyError):
        understood(["service"])


# ---------------------------------------------------------------- the compose file


def checked(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "godwit", "check-config", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_mounted_exists_and_named_volumes_are_declared() -> None:
    for service in COMPOSE["services"]:
        for what in mounts(service).values():
            if what.startswith("./"):
                assert (DEPLOY / what).is_file(), f"{service}: {what}"
            else:
                assert what in COMPOSE["volumes"], f"{service}: {what}"


def test_brokers_have_a_read_only_root_no_rights_and_ports_on_this_machine_only() -> None:
    for name in (*BROKERS, "prepare"):
        service = COMPOSE["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["image"] == "godwit"
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    taken = [port.rpartition(":")[0] for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_of_the_compose_file_can_be_started(name: str, etc: Path) -> None:
    command = COMPOSE["services"][name]["command"]
    understood(command)
    assert command[1] == CONFIGURATION
    assert mounts(name)["/etc/godwit/secrets"] == "secrets"
    checked(etc / f"{name}.toml")


def test_prometheus_scrapes_each_broker_and_reads_its_password_where_it_is_mounted() -> None:
    (job,) = SCRAPE["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{name}:7080" for name in BROKERS]}]
    assert str(Path(job["basic_auth"]["password_file"]).parent) in mounts("prometheus")
    assert f"/etc/prometheus/{SCRAPE['rule_files'][0]}" in mounts("prometheus")
    assert job["job_name"] == "godwit"  # the alerts name it


def test_grafana_finds_the_dashboard_and_its_data() -> None:
    (source,) = yaml.safe_load((DEPLOY / "grafana" / "datasource.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yaml").read_text())["providers"]
    assert mounts("grafana")[f"{provider['options']['path']}/godwit.json"] == "./grafana/godwit.json"


def test_secrets_are_made_once_and_are_for_their_owner_alone(etc: Path, tmp_path: Path) -> None:
    made = prepared(tmp_path)
    first = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    prepared(tmp_path)
    assert {file: file.read_bytes() for file in first} == first
    assert {file.name for file in first} == {"link_secret", "users.toml", "admin_password", "password"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in first if file.parent.name == "secrets")
    assert (made / "scrape" / "password").stat().st_mode & 0o777 == 0o644  # Prometheus runs as another user
    assert (etc / "secrets" / "link_secret").read_bytes() != first[made / "secrets" / "link_secret"]


def test_three_brokers_with_the_mounted_configurations_join_and_are_scraped(etc: Path, tmp_path: Path) -> None:
    password = (etc / "secrets" / "admin_password").read_text().strip()
    scrape = SCRAPE["scrape_configs"][0]
    prometheus = (scrape["basic_auth"]["username"], (etc / "scrape" / "password").read_text().strip())
    health = json.loads(dict(stages(DOCKERFILE.read_text())[1])["HEALTHCHECK"].partition("CMD ")[2])

    async def scene() -> None:
        async with AsyncExitStack() as stack:

            async def start(name: str, *more: str) -> Served:
                words = shlex.split("--native 127.0.0.1:0 --mqtt 127.0.0.1:0 --http 127.0.0.1:0")
                folder = str(tmp_path / name)
                file = str(etc / f"{name}.toml")
                return await stack.enter_async_context(
                    serving(file, *words, "--folder", folder, *more, folder=tmp_path)
                )

            b2 = await start("b2")
            b1 = await start("b1", "--neighbour", f"b2={b2.native}")
            b3 = await start("b3", "--neighbour", f"b2={b2.native}")
            for broker in (b1, b3):
                await broker.log("link up", peer="b2")
            client = await stack.enter_async_context(
                connect(b1.native, name="admin/laptop", user="admin", password=password)
            )
            mine = await client.subscribe("n = 1")
            await client.publish({"n": 1})
            assert (await mine.next()).attributes["n"] == 1
            web = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=300))
            url = f"http://{b1.said['http']}"
            assert (await web.get(url + scrape["metrics_path"])).status_code == 401
            answer = await web.get(url + scrape["metrics_path"], auth=prometheus)
            assert 'godwit_link_up{peer="b2"} 1.0' in answer.text
            code = health[2].replace("http://127.0.0.1:7080", url).replace("timeout=4", "timeout=300")
            assert url in code
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
            assert await process.wait() == 0

    run(scene)
