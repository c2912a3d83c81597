"""The folder of compiled kernels of Numba, and whether compiled kernels are used.

*Theory.* Compiling all kernels takes ten to thirty seconds, so Numba stores them in files for the next process: in
`NUMBA_CACHE_DIR`, or beside the modules, or in the home folder. Where none of these can be written, as in a container
with a read-only root and without HOME, Numba raises an error at import. This module looks for a folder first.

*Rules.*
1. `NUMBA_CACHE_DIR` is used if it is set. Otherwise the first of these that can be written is used: the folder of the
   modules, systemd's `CACHE_DIRECTORY`, `XDG_CACHE_HOME`, `~/.cache`, the folder for temporary files.
2. Compiled code is loaded and run. So a folder that is not beside the modules must belong to this user, and nobody else
   may write to it.
3. Without such a folder nothing is compiled: a broker starts at once, and matches with NumPy and Python.
4. A program that calls `postpone` before the kernels are imported has them without Numba at first, and with it when
   `late_kernels.py` has loaded it: Numba takes 130 MB of memory and half a second, which an idle broker saves.
   `GODWIT_NUMBA=1` asks for it at once, `GODWIT_NUMBA=0` for none at all.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

__all__ = [
    "CACHE",
    "COMPILED",
    "cache_folder",
    "end_postponement",
    "has_compiled_kernels",
    "is_postponed",
    "kernels_used",
    "postpone",
]

VARIABLE = "NUMBA_CACHE_DIR"
MODULES = Path(__file__).parent


def cache_folder() -> Path | None:
    """The folder for compiled kernels, or None where there is none. (rule 1)"""
    if os.environ.get(VARIABLE):
        folder = Path(os.environ[VARIABLE])
        return folder if _takes_files(folder) else None
    if _takes_files(MODULES / "__pycache__"):
        return MODULES / "__pycache__"
    for folder in _own_folders():
        if _takes_files(folder) and _is_ours_alone(folder):
            return folder
    return None


def has_compiled_kernels(folder: Path) -> bool:
    """Whether an earlier process has left compiled kernels there."""
    return next(folder.rglob("compiled_kernels.match_one-*.nbi"), None) is not None


def _own_folders() -> Iterator[Path]:
    for variable in ("CACHE_DIRECTORY", "XDG_CACHE_HOME"):
        if os.environ.get(variable):
            yield Path(os.environ[variable].partition(":")[0]) / "godwit"
    if os.environ.get("HOME"):
        yield Path(os.environ["HOME"]) / ".cache" / "godwit"
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        yield Path(tempfile.gettempdir()) / f"godwit-{user}"
    except FileNotFoundError:  # no folder for temporary files can be written, nor the current folder
        return


def _takes_files(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_ours_alone(folder: Path) -> bool:
    """Whether the folder is not a link, belongs to this user, and only this user may write to it. (rule 2)"""
    if not hasattr(os, "getuid"):
        return True
    found = folder.lstat()
    others_write = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & others_write


_WANTED = os.environ.get("GODWIT_NUMBA", "")
_IS_WANTED = _WANTED != "0"
_IS_INSTALLED = find_spec("numba") is not None
CACHE = cache_folder() if _IS_WANTED and _IS_INSTALLED else None
COMPILED = CACHE is not None
KERNELS = "godwit.matching.kernels"


class _Postponed:
    is_so = False


def postpone() -> None:
    """Load Numba when there is much to match. Without effect where the kernels are imported already. (rule 4)"""
    _Postponed.is_so = COMPILED and _WANTED != "1" and KERNELS not in sys.modules


def is_postponed() -> bool:
    """Whether the kernels run without Numba until it is loaded."""
    return _Postponed.is_so


def end_postponement() -> None:
    """The compiled kernels are in use."""
    _Postponed.is_so = False


def kernels_used() -> str:
    """Which kernels run in this process, and why, in words for a log."""
    if _Postponed.is_so:
        return "NumPy at first; Numba is loaded when there is more to match"
    if COMPILED:
        return "compiled by Numba"
    if not _IS_WANTED:
        return "not compiled: GODWIT_NUMBA is 0"
    if not _IS_INSTALLED:
        return "not compiled: Numba is not installed (pip install 'godwit[fast]')"
    return "not compiled: no folder for compiled code can be written (set NUMBA_CACHE_DIR)"
