"""What is done to a disk, in order: for tests of what is there when the power ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Step = tuple[str, str]


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[list[Step]]:
    """The steps that are taken below `root`, with the file that each is about: `fsync`, `rename` (to), `unlink`."""
    done: list[Step] = []
    root = root.resolve()

    def note(step: str, path: str | Path) -> None:
        absolute = Path(path).absolute()
        if absolute.is_relative_to(root):
            done.append((step, absolute.relative_to(root).as_posix()))

    real_fsync, real_fdatasync, real_replace, real_rename, real_unlink = (
        *(os.fsync, os.fdatasync),
        *(Path.replace, Path.rename, Path.unlink),
    )

    def fsync(handle: int) -> None:
        note("fsync", Path(f"/proc/self/fd/{handle}").readlink())
        real_fsync(handle)

    def fdatasync(handle: int) -> None:
        note("fsync", Path(f"/proc/self/fd/{handle}").readlink())
        real_fdatasync(handle)

    def replace(path: Path, target: Any) -> Path:
        found = real_replace(path, target)
        note("rename", target)
        return found

    def rename(path: Path, target: Any) -> Path:
        found = real_rename(path, target)
        note("rename", target)
        return found

    def unlink(path: Path, missing_ok: bool = False) -> None:
        is_there = path.exists()
        real_unlink(path, missing_ok=missing_ok)
        if is_there:
            note("unlink", path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        patched.setattr(os, "fdatasync", fdatasync)
        patched.setattr(Path, "replace", replace)
        patched.setattr(Path, "rename", rename)
        patched.setattr(Path, "unlink", unlink)
        yield done
