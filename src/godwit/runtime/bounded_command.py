"""Runs a `godwit` command with resource limits: `python -m godwit.runtime.bounded_command`.

The first four arguments are limits: bytes of memory, seconds of processor time, bytes of a file, and the niceness. The
rest is the command. A process limits itself before it loads anything, because a broker cannot run code between starting
a process and its program.
"""

import runpy
import sys

__all__ = ["bound", "main"]

STATUS_FAULT = 70  # as other programs have it for an internal error
NEARLY = 0.8  # of the bound: what could not be had is on top of it


def main(words: list[str]) -> None:
    """Bound this process, and run the command."""
    bound(*map(int, words[:4]))
    sys.argv = ["godwit", *words[4:]]
    try:
        runpy.run_module("godwit", run_name="__main__", alter_sys=True)
    except Exception as error:  # Python would exit with 1, which means "no" for a command
        kind = type(error).__name__
        if isinstance(error, SystemError) and is_memory_used_up(int(words[0])):
            kind = MemoryError.__name__  # some C libraries do not report the cause of a failure
        sys.stderr.write(f"error: {kind}: {error}\n")
        sys.exit(STATUS_FAULT)


def is_memory_used_up(memory_bytes: int) -> bool:
    """Whether this process is close to its memory limit, as far as the system reports it."""
    from pathlib import Path

    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        peak_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmPeak:"))
    except (OSError, StopIteration, ValueError):
        return False
    return peak_kb * 1024 > NEARLY * memory_bytes


def bound(memory_bytes: int, cpu_s: int, file_bytes: int, niceness: int) -> None:
    """Limit this process, as far as the system supports it."""
    try:
        import os
        import resource
    except ImportError:  # not on every system
        return
    os.nice(niceness)
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # Past the lower of two bounds on processor time comes SIGXCPU, which says why; past the upper one, SIGKILL.
        resource.setrlimit(what, (allowed, hard if what == resource.RLIMIT_CPU else allowed))


if __name__ == "__main__":
    main(sys.argv[1:])
