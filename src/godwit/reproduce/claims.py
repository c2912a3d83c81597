"""Claims: the statement of a paper, the result of our run of its experiment, and whether the claim holds.

*Theory.* An experiment runs scenarios, each with a trace in a separate folder, and Spark reads the traces
(`pipeline/analytics.py`); all figures are computed by Spark, none inside a run, but for two numbers of H6, which its
note names. Some experiments have no traces: R1
compares tables of the paper with the functions that brokers call, and those of `spcf` and `motion` count and time
routing machines, tiers and matchers directly, and store the results as JSON.

*Rules.*
1. A claim that does not hold is reported so, with a note on the cause. It is never bent.
   `holds` is judged by the plain reading of the paper's words. A bound that the words need is fixed in the code before
   the run, and written beside the claim (`bound`). Where another reading saves a claim, the grade names it, and the
   note says how the plain reading fails.
2. `--full` uses the paper's parameters. `--quick` uses fewer clients or shorter times, and the claim's note says when
   that could matter.
3. Every claim of a paper gives exactly one row, in the order of their keys.
"""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from godwit.errors import GodwitError
from godwit.pipeline.spark_session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PAPERS", "WITHOUT_TRACES", "Claim", "Grade", "Setting", "check_paper", "claims_of"]

PAPERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mobile": ("publish/subscribe in a mobile environment", ("H1", "H2", "H3", "H4", "H5", "H6")),
    "motion": ("mobile teamwork on publish/subscribe", ("M1", "M2", "M3", "M4", "M5", "M6")),
    "pubmob": ("publisher mobility", ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9")),
    "rebeca": ("physical and logical mobility in REBECA", ("R1", "R2", "R3", "R4", "R5", "R6")),
    "spcf": ("context-aware publish/subscribe", ("S1", "S2", "S3", "S4", "S5")),
}
"""Each paper by its key: what it is about, and the claims that its experiments decide."""

WITHOUT_TRACES = ("motion", "spcf")
"""Papers whose experiments leave no traces, so that Spark is not needed."""


Grade = Literal["holds", "holds under a stated reading", "does not hold", "not decided"]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim and its result."""

    key: str
    where: str  # section, figure or table of the paper
    claim: str
    paper: str  # the paper's figures
    ours: str
    holds: bool  # by the plain reading of the paper's words
    note: str = ""
    bound: str = ""  # the bound of the plain reading, fixed before the run, with the paper's words
    reading: str = ""  # another reading, and how the plain one fails
    reading_holds: bool = False
    undecided: str = ""  # why this run cannot decide the claim, though a longer one can

    @property
    def grade(self) -> Grade:
        """The verdict."""
        if self.holds:
            return "holds"
        if self.undecided:
            return "not decided"
        return "holds under a stated reading" if self.reading_holds else "does not hold"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the experiments."""

    folder: Path  # for traces and figures
    full: bool = False
    seed: int = 1
    changes: dict[str, Any] = {}  # to the scenario of every run, by key: a setting that a search has found (pubmob)
    processes: int | None = None  # that make runs at once (None: one for each processor)
    progress: Callable[[str, float], None] = lambda what, share: None  # what runs, and the share of it that is done
    spark: Callable[[], "SparkSession"] = lambda: start(name="godwit reproduce")  # the running session, if there is one


def check_paper(paper: str) -> None:
    """Raise `GodwitError` unless there are experiments of this paper."""
    if paper not in PAPERS:
        near = get_close_matches(paper, PAPERS, n=1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        raise GodwitError(f"there is no paper {paper!r} to reproduce{guess}; allowed are {', '.join(PAPERS)}")


def claims_of(paper: str, setting: Setting) -> Iterator[Claim]:
    """Run the experiments of a paper, claim by claim."""
    check_paper(paper)
    yield from import_module(f"godwit.reproduce.{paper}").claims(setting)
