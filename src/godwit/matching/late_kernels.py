"""Load Numba into a process that has matched without it.

*Theory.* Numba and the compiled kernels take 130 MB of memory and most of a second to load. A broker with little to do
matches with NumPy, and loads them when there is more to match. All kernels work on the same arrays, so an index needs
no change: in the modules that call kernels, their names are bound to the compiled functions.

*Rules.*
1. `prepare` may run beside a thread that matches. Until `finish` that thread calls the plain kernels. The thread of
   `prepare` calls the compiled ones, to have them loaded.
2. `finish` is called by the thread that matches, between two calls of a matcher. A plain kernel that is under way
   would otherwise call compiled ones with numbers of other types, and Numba would compile them again.
3. Compiled kernels have copies of their modules' names, in which every kernel is compiled. They never see a plain one.
4. An index of more than `PLAIN_ROWS_MAX` conjunctions loads them at once, which is quicker than to place so many
   without them: for a broker that starts again. One that serves goes on without them until `prepare` has ended.
"""

import sys
from collections.abc import Callable
from threading import RLock, get_ident
from types import FunctionType, ModuleType
from typing import Any

from godwit.matching import kernel_cache, kernels, numpy_kernels

__all__ = ["finish", "is_wanted", "load", "matched", "note_rows", "prepare", "wait_no_more"]

PACKAGE = "godwit.matching."
MATCHED_MIN = 100  # events in a second, from which on Numba is wanted
ROWS_MIN = 1_000  # conjunctions of one index, from which on it is
PLAIN_ROWS_MAX = 4_000

_lock = RLock()
_made: dict[Any, Any] = {}  # the compiled kernel for each plain one


def is_wanted(matched_before: int) -> bool:
    """Whether there is so much to match that Numba is worth its memory: many events since then, or many conjunctions.

    An event takes 0.1 ms without Numba. A hundred in a second are a hundredth of a processor.
    """
    demand = numpy_kernels.DEMAND
    return demand.matched - matched_before >= MATCHED_MIN or demand.rows >= ROWS_MIN


def matched() -> int:
    """How many events were matched without Numba so far."""
    return numpy_kernels.DEMAND.matched


def note_rows(count: int) -> None:
    """An index has so many conjunctions. (rule 4)"""
    demand = numpy_kernels.DEMAND
    demand.rows = max(demand.rows, count)
    if count > PLAIN_ROWS_MAX and not demand.may_not_wait:
        load()


def wait_no_more() -> None:
    """Do not block the calling thread for Numba any more: clients wait for it now. (rule 4)"""
    numpy_kernels.DEMAND.may_not_wait = True


def load() -> None:
    """Load Numba, and wait for it."""
    prepare()
    finish()


def prepare() -> None:
    """Compile the kernels or load them from disk, beside plain ones that go on. (rule 1)"""
    from godwit.matching import compiled_kernels
    from godwit.matching.warm_up import warm_up

    with _lock:
        if _made:
            return
        made = _compiled()
        made[numpy_kernels.match_one] = made[compiled_kernels.match_one]
        here = get_ident()
        try:
            _rename({plain: _by_thread(here, quick, plain) for plain, quick in made.items()})
            warm_up()
        except BaseException:
            _rename({plain: plain for plain in made})
            raise
        _made.update(made)


def finish() -> None:
    """Call compiled kernels from now on. (rule 2)"""
    if _made and kernel_cache.is_postponed():
        _rename(_made)
        for module in _modules():
            if "COMPILED" in vars(module):
                vars(module)["COMPILED"] = True
        kernel_cache.end_postponement()


def _compiled() -> dict[Any, Any]:
    """Numba's version of each kernel that was postponed. (rule 3)"""
    made: dict[Any, Any] = {}
    names: dict[str, dict[str, Any]] = {}
    for plain, options in kernels.POSTPONED:
        own = names.setdefault(plain.__module__, dict(vars(sys.modules[plain.__module__])))
        copy = FunctionType(plain.__code__, own, plain.__name__, plain.__defaults__)
        copy.__module__, copy.__qualname__ = plain.__module__, plain.__qualname__
        made[plain] = kernels.numba_decorator(**options)(copy)
    made[kernels.hash_plain] = next(quick for plain, quick in made.items() if plain.__name__ == "hash_of")
    for own in names.values():
        own.update({name: made[each] for name, each in own.items() if isinstance(each, FunctionType) and each in made})
    return made


def _by_thread(here: int, quick: Any, plain: Any) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return (quick if get_ident() == here else plain)(*arguments)

    call.plain = plain  # type: ignore[attr-defined]
    return call


def _rename(instead: dict[Any, Any]) -> None:
    """Bind the names of plain kernels to other functions, in all modules that call them."""
    for module in _modules():
        for name, each in list(vars(module).items()):
            if isinstance(each, FunctionType) and (plain := getattr(each, "plain", each)) in instead:
                vars(module)[name] = instead[plain]


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]
