"""Runs a program under several hash seeds: what it prints must not depend on how a process hashes texts."""

import os
import subprocess
import sys

from tests.conventions.repository import ROOT

__all__ = ["outputs"]


def outputs(program: str, seeds: tuple[str, ...] = ("1", "2"), *, compiled: bool = False) -> set[str]:
    """What the program prints, one text for each seed; equal ones are one.

    Numba takes longer to load than most of these programs run: only those about kernels are to have them compiled.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GODWIT_NUMBA": str(int(compiled))}
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in seeds
    }
