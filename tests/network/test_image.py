"""The image: built and run where Docker is there; and its steps carried out in a folder, where it is not."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT
from tests.network.test_compose import DEPLOY, DOCKERFILE, stages

PLACES = ("/checkout", "/wheels", "/constraints.txt", "/opt/godwit", "/var/lib/godwit", "/etc/godwit")
TAG = f"godwit-test-{os.getpid()}"
HTTP_PORT = "7080"


# ---------------------------------------------------------------- with Docker


@cache
def why_no_docker() -> str:
    if shutil.which("docker") is None:
        return "docker is not installed"
    asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False, timeout=60)
    return "" if asked.returncode == 0 else "docker is installed, and no daemon answers `docker info`"


def docker(*words: str, fails: bool = False) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert fails or done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.strip()


@contextmanager
def container() -> Iterator[str]:
    """A container of the image, as the guide runs it."""
    docker("build", "--file", str(DOCKERFILE), "--tag", TAG, str(ROOT))
    try:
        made = docker("run", "--detach", "--read-only", "--cap-drop", "ALL", TAG)
        try:
            yield made
        finally:
            docker("rm", "--force", "--volumes", made, fails=True)
    finally:
        docker("rmi", TAG, fails=True)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_image_is_built_and_a_container_of_it_serves() -> None:
    if reason := why_no_docker():
        pytest.skip(reason)
    with container() as made:
        with subprocess.Popen(["docker", "logs", "--follow", made], stdout=subprocess.PIPE) as logs:
            assert logs.stdout is not None
            said = json.loads(logs.stdout.readline())
            logs.kill()
        assert said["http"].endswith(f":{HTTP_PORT}")
        docker("exec", made, *json.loads(health_check()))
        docker("stop", made)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", made) == "0"


# ---------------------------------------------------------------- without


def health_check() -> str:
    """The command of HEALTHCHECK, as JSON."""
    final = stages(DOCKERFILE.read_text(encoding="utf-8"))[-1]
    return dict(final)["HEALTHCHECK"].partition(" CMD ")[2]


class Steps:
    """Carries out the instructions of the Dockerfile, with its folders in another one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        self.environment = {**kept, "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin", "HOME": str(root / "home")}

    def placed(self, text: str) -> str:
        """A text with the folders of the image as they are here."""
        found = "|".join(map(re.escape, PLACES))
        return re.sub(rf"(?<![\w./-])({found})\b", lambda match: f"{self._root}{match[1]}", text)

    def take(self, name: str, rest: str) -> None:
        """Carry out an instruction."""
        match name:
            case "ARG":
                key, _, value = rest.partition("=")
                self.environment[key] = value
            case "ENV":
                for each in rest.split():
                    key, _, value = each.partition("=")
                    self.environment[key] = self.placed(value).replace("$PATH", self.environment["PATH"])
            case "COPY" if not rest.startswith("--from"):
                source, target = rest.split()
                self._copy(source, Path(self.placed(target)))
            case "RUN" if "useradd" in rest:  # the users of this machine stay as they are: only the folders are made
                for each in re.findall(r" (/\S+)", rest.partition("install --directory")[2]):
                    Path(self.placed(each)).mkdir(parents=True, exist_ok=True)
            case "RUN":
                self.run(["sh", "-ec", self.placed(rest)])

    def _copy(self, source: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source != ".":
            target.write_text(self.placed((ROOT / source).read_text(encoding="utf-8")), encoding="utf-8")
            return
        for line in (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
            if not line.startswith("!"):
                continue
            given, copy = ROOT / line[1:], target / line[1:]
            copy.parent.mkdir(parents=True, exist_ok=True)
            if given.is_file():
                shutil.copy(given, copy)
            else:
                shutil.copytree(given, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, command: list[str]) -> None:
        done = subprocess.run(
            command, env=self.environment, cwd=self._root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-1_000:]} {done.stderr[-2_000:]}"


def can_install(folder: Path) -> bool:
    """Whether packages can be installed here, as the build does."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), "hatchling"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_steps_of_the_image_install_a_broker_that_its_health_check_finds(tmp_path: Path) -> None:
    if not can_install(tmp_path / "download"):
        pytest.skip("no package index can be reached, from which the build installs")
    (tmp_path / "home").mkdir()
    steps = Steps(tmp_path)
    build, final = stages(DOCKERFILE.read_text(encoding="utf-8"))
    for name, rest in (*build, *final):
        steps.take(name, rest)
    said = dict(final)
    command = [*json.loads(said["ENTRYPOINT"]), *json.loads(steps.placed(said["CMD"]))]
    ports = {f"GODWIT_LISTEN__{name}": "127.0.0.1:0" for name in ("NATIVE", "MQTT", "HTTP")}
    with subprocess.Popen(
        [str(tmp_path / "opt/godwit/bin" / command[0]), *command[1:]],
        cwd=steps.placed(said["WORKDIR"]),
        env={**steps.environment, **ports},
        stdout=subprocess.PIPE,
    ) as broker:
        try:
            assert broker.stdout is not None
            http = json.loads(broker.stdout.readline())["http"]
            check = json.loads(health_check().replace(HTTP_PORT, http.rpartition(":")[2]))
            check[0] = str(tmp_path / "opt/godwit/bin" / check[0])
            steps.run(check)
            broker.send_signal(getattr(signal, said["STOPSIGNAL"]))
            assert broker.wait() == 0
        finally:
            broker.kill()
    with pytest.raises(AssertionError, match="refused"):
        steps.run(check)
    assert list((tmp_path / "var/lib/godwit/kernels").rglob("*.nbi"))
    assert (tmp_path / "var/lib/godwit/journal").is_dir()
