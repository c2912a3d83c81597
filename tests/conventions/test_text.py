"""What no file of the repository may say: names of package registries, paths of one machine, waiting, loose ends."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT, files

# Each pattern is put together from pieces, so that this file does not hold what it forbids.
REGISTRY_HOSTS = [
    *("py" + "pi.org", "python" + "hosted.org", "ana" + "conda.org"),
    *("npm" + "js.org", "npm" + "js.com", "yarn" + "pkg.com", "crates" + ".io", "ruby" + "gems.org"),
    *("repo1." + "maven", "repo." + "maven", "maven" + "-central", "proxy." + "golang.org"),
    *("index" + "-url", "--find" + "-links"),
]
MACHINE_FOLDERS = ["ro" + "ot", "wo" + "rk", "ho" + "me", "Us" + "ers"]
MACHINE_PATH = re.compile(rf"(?<![\w.*/-])/(?:{'|'.join(MACHINE_FOLDERS)})/[\w.]")
WAITING = re.compile(r"\bsl" + r"eep\(")
LOOSE_END = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def names_a_registry(text: str) -> bool:
    text = text.lower()
    return any(host in text for host in REGISTRY_HOSTS)  # many times faster than one pattern for all


RULES: list[tuple[str, Callable[[str], object], str]] = [
    ("", names_a_registry, "names a package registry"),
    ("", MACHINE_PATH.search, "names a path of one machine"),
    ("tests/", WAITING.search, "waits: hand the time in, or wait for the thing itself"),
    ("src/", LOOSE_END.search, "leaves a loose end: do it, or open an issue"),
]


def faults(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """`texts` are pairs of a file's path below the root and its content."""
    for name, text in texts:
        broken = [rule for rule in RULES if name.startswith(rule[0]) and rule[1](text)]
        for number, line in enumerate(text.splitlines() if broken else (), start=1):
            for _, is_broken_by, fault in broken:
                if is_broken_by(line):
                    yield f"{name}:{number}: {fault}"


def readable(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8", errors="replace")


def test_no_file_says_what_it_must_not() -> None:
    assert list(faults(readable(files()))) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("requirements.lock", "# from https://" + "py" + "pi.org/simple"),
        ("docs/setup.md", "pip install --extra-index" + "-url=https://example.org godwit"),
        ("docs/setup.md", "cd /ho" + "me/alice/godwit"),
        ("src/godwit/errors.py", "PATH = '/ro" + "ot/.cache'"),
        ("tests/unit/test_x.py", "    time.sl" + "eep(1)"),
        ("src/godwit/errors.py", "# TO" + "DO: later"),
    ],
)
def test_a_forbidden_word_is_caught(name: str, line: str) -> None:
    [fault] = faults([(name, f"first\n{line}\nlast")])
    assert fault.startswith(f"{name}:2: ")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("docs/guide.md", "see https://example.org/wo" + "rk/one"),
        ("docs/guide.md", "sl" + "eep(1)"),
        ("README.md", "see ../wo" + "rk/x and a/ro" + "ot/b"),
    ],
)
def test_what_only_looks_alike_is_let_through(name: str, line: str) -> None:
    assert list(faults([(name, line)])) == []
