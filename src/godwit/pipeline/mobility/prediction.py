"""Prediction of the next place: a first-order baseline and a richer model, evaluated on later data.

*Theory.* A *context* is the information about a client at its last fix in a place: the place, and optionally the place
before, the hour, the direction. Spark counts, in one job, the next places for each context: contexts are hashed to 64
bits, so that one table has those of all kinds. The contexts of a *chain* are more and more specific, and where a
specific one has few observations, the one before it is used:

    P(to | c) = λ · n(c, to) / n(c)  +  (1 − λ) · P(to | c without its last detail),   λ = n(c) / (n(c) + kinds(c))

where kinds(c) is the number of different next places after c [Witten and Bell's back-off]. Every chain begins with the
place alone, the first-order model. There a part of the probability, `DISCOUNT` of each kind of step, is reserved for
places that were never reached from here: together they are one more outcome, *elsewhere*.

Chains are combined log-linearly: P(to) ∝ P₁(to) ^ w₀ · Π (P_chain(to) / P₁(to)) ^ w_chain. So the evidence of chains
adds up, which a mean of probabilities would blur, and a redundant chain gets a small weight. The weights maximise the
likelihood of a held-out part of the training data; Newton's method finds them, because the likelihood has one peak.

*Rules.*
1. By client, the first 70 % of its transitions are for training and the rest for testing: no prediction uses the
   future. Weights are learnt from the last fifth of the training, with counts of the rest; the counts are then of all
   of it.
2. A context uses nothing after the last fix at the place, except that the client leaves now, which both models know.
3. The baseline is evaluated by the same measure on the same transitions. Of equally likely outcomes the first by name
   is used.
4. For the logarithmic loss, the probability of elsewhere is divided equally among all other places.

*Paper.* [pubmob §4.1] "PREFETCHING assumes perfect mobility prediction": this is what can be had instead.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from godwit.errors import PipelineError
from godwit.pipeline.mobility.cells import PlaceMap
from godwit.pipeline.mobility.globe import DEGREE_M, Floats
from godwit.pipeline.mobility.visits import PARTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CHAINS", "MODELS", "Counted", "Score", "Steps", "accuracy", "contexts", "fitted", "outcomes"]

FITTED_MAX = 50_000  # transitions that weights are learnt from
ROUNDS_MAX = 30
SETTLED = 1e-4
RIDGE = 1e-6
DISCOUNT = 0.75
ELSEWHERE_MIN = 1e-3
ROWS_AT_ONCE = 10_000
STANDING_MPS = 1.0
SECTORS = 8
AHEAD_MAX = 1.5  # times the last interval

CHAINS: dict[str, tuple[tuple[str, ...], ...]] = {
    "order two": (("place", "before"), ("place", "before", "earlier")),
    "hour": (("place", "hour"),),
    "occupancy": (("place", "occupied"),),
    "position": (("place", "heading"), ("place", "detail", "heading"), ("place", "detail", "heading", "occupied")),
    "course": (("place", "ahead"), ("place", "ahead_detail")),
    "client": (("place", "client"),),
}
"""Chains by name: contexts, the more general first."""

MODELS: dict[str, tuple[str, ...]] = {
    "first order": (),
    "order two": ("order two",),
    "visits, hour, occupancy": ("order two", "hour", "occupancy"),
    "all": tuple(CHAINS),
}
"""The evaluated models: their chains, by name."""

KINDS: tuple[tuple[str, ...], ...] = (("place",), *dict.fromkeys(kind for chain in CHAINS.values() for kind in chain))
"""Each kind of context; its number is its place here."""

Ints = np.ndarray[Any, np.dtype[np.int64]]


# ---------------------------------------------------------------- contexts, in Spark


def contexts(visits: "DataFrame", places: PlaceMap, ahead_s: float) -> "DataFrame":
    """Visits with a next place: `part`, `nth`, `to` and a key for each of `KINDS`. `ahead_s`: extrapolation time of
    the course."""
    from pyspark.sql import functions as fn

    seen = _ahead(visits.where("to is not null"), places, ahead_s)
    fast = fn.hypot("east_m", "north_m") >= fn.col("elapsed_s") * STANDING_MPS
    sector = fn.pmod(fn.round(fn.degrees(fn.atan2("east_m", "north_m")) * (SECTORS / 360)), fn.lit(SECTORS)).cast("int")
    seen = seen.withColumns(
        {
            "hour": fn.hour("last_at"),
            "heading": fn.when(fast, sector).when(fn.col("east_m").isNotNull(), fn.lit(SECTORS)),
        }
    )

    def key(number: int) -> "Column":
        known = [fn.coalesce(fn.col(name).cast("string"), fn.lit("")) for name in KINDS[number]]
        return fn.xxhash64(fn.lit(number), *known).alias(f"key_{number}")

    return seen.select("part", fn.xxhash64("client", "visit").alias("nth"), "to", *map(key, range(len(KINDS))))


def _ahead(transitions: "DataFrame", places: PlaceMap, ahead_s: float) -> "DataFrame":
    """With `detail`, the finer cell of a client; `ahead`, `ahead_detail`: the extrapolated position."""
    from pyspark.sql.types import StringType, StructField, StructType

    def look(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            lon, lat, elapsed_s, east_m, north_m = (
                np.nan_to_num(batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64))
                for name in ("lon", "lat", "elapsed_s", "east_m", "north_m")
            )
            times = np.minimum(ahead_s / np.maximum(elapsed_s, 1e-3), AHEAD_MAX)
            to_lat = np.clip(lat + north_m * times / DEGREE_M, -90, 90)
            to_lon = lon + east_m * times / (DEGREE_M * np.maximum(np.cos(np.radians(lat)), 1e-6))
            to_lon = (to_lon + 180) % 360 - 180
            for name, found in (
                ("detail", places.details(lon, lat)),
                ("ahead", places.names(to_lon, to_lat)),
                ("ahead_detail", places.details(to_lon, to_lat)),
            ):
                batch = batch.append_column(name, pa.array(found, pa.string()))
            yield batch

    more = [StructField(name, StringType()) for name in ("detail", "ahead", "ahead_detail")]
    return transitions.mapInArrow(look, StructType([*transitions.schema.fields, *more]))


def outcomes(transitions: "DataFrame") -> "DataFrame":
    """The counts of next places for each context: `kind`, `key`, `to`, `few` in part 0, `many` with part 1."""
    from pyspark.sql import functions as fn

    keys = fn.array(
        *(fn.struct(fn.lit(number).alias("kind"), fn.col(f"key_{number}").alias("key")) for number in _numbers())
    )
    exploded = transitions.where("part < 2").select("part", "to", fn.explode(keys).alias("at"))
    few = fn.sum((fn.col("part") == 0).cast("int")).alias("few")
    return exploded.groupBy("at.kind", "at.key", "to").agg(few, fn.count("*").alias("many"))


def _numbers() -> range:
    return range(len(KINDS))


# ---------------------------------------------------------------- the model, on arrays


@dataclass(frozen=True)
class Counted:
    """The counts for the contexts of one kind: sorted keys with totals, and sorted pairs of key and place."""

    keys: Ints
    totals: Ints
    kinds: Ints  # how many places clients went to
    pairs: Ints  # number of the key × places + place
    counts: Ints
    places: int

    @staticmethod
    def of(keys: Ints, to: Ints, counts: Ints, places: int) -> "Counted":
        """From one row for each context and place."""
        found, numbers = np.unique(keys, return_inverse=True)
        pairs = numbers.reshape(-1) * places + to
        order = np.argsort(pairs)
        totals = np.bincount(numbers.reshape(-1), counts, minlength=len(found)).astype(np.int64)
        kinds = np.bincount(numbers.reshape(-1), minlength=len(found)).astype(np.int64)
        return Counted(found, totals, kinds, pairs[order], counts[order], places)

    def find(self, keys: Ints) -> Ints:
        """The number of each key, or -1."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, at, -1)

    def count(self, numbers: Ints, to: Ints) -> Ints:
        """The counts of pairs of context and place; 0 for the context -1 and for the place -1."""
        if not len(self.pairs):
            return np.zeros(len(numbers), np.int64)
        wanted = numbers * self.places + to
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where((numbers >= 0) & (to >= 0) & (self.pairs[at] == wanted), self.counts[at], 0)


@dataclass(frozen=True)
class Steps:
    """Transitions and their possible outcomes, flat: row after row, *elsewhere* last in each row."""

    rows: Ints  # of each outcome, the transition
    begins: Ints  # of each transition, its first outcome
    to: Ints  # the place of each outcome, -1 for elsewhere
    features: Floats  # by chain, after that of the first order
    happened: Any  # by outcome, whether it was this one


def steps_of(tables: Sequence[Counted], chains: Sequence[str], keys: Sequence[Ints], to: Ints) -> Steps:
    """The probabilities of the chains for some transitions. `keys`: for each of `KINDS`, one for each transition."""
    first = tables[0]
    numbers = first.find(keys[0])
    at = np.searchsorted(first.pairs, np.arange(len(first.keys) + 1) * first.places)
    known = np.where(numbers >= 0, at[numbers + 1] - at[numbers], 0)
    rows = np.repeat(np.arange(len(to)), known + 1)
    begins = np.cumsum(known + 1) - (known + 1)
    nth = np.arange(len(rows)) - begins[rows]
    is_last = nth == known[rows]
    source = np.where(is_last, 0, at[numbers[rows]] + nth)
    places = np.where(is_last, -1, first.pairs[source] % first.places) if len(first.pairs) else np.full(len(rows), -1)

    total, kinds = _held(first.totals, numbers), _held(first.kinds, numbers)
    elsewhere = np.maximum(np.where(total > 0, DISCOUNT * kinds / np.maximum(total, 1), 1.0), ELSEWHERE_MIN)
    counts = first.count(numbers[rows], places)
    plain = np.where(is_last, elsewhere[rows], (1 - elsewhere[rows]) * counts / np.maximum(total[rows], 1))

    features = [np.log(plain)]
    for chain in chains:
        likely = plain
        for kind in CHAINS[chain]:
            table = tables[KINDS.index(kind)]
            numbers = table.find(keys[KINDS.index(kind)])
            total, kinds = _held(table.totals, numbers), _held(table.kinds, numbers)
            weight = total / (total + np.maximum(kinds, 1))
            share = table.count(numbers[rows], places) / np.maximum(total[rows], 1)
            likely = weight[rows] * share + (1 - weight[rows]) * likely
        features.append(np.log(likely) - features[0])
    happened = (places == to[rows]) & ~is_last
    found = np.add.reduceat(happened, begins, dtype=np.int64) > 0 if len(rows) else np.zeros(0, np.bool_)
    return Steps(rows, begins, places, np.array(features), happened | (is_last & ~found[rows]))


def _held(values: Ints, numbers: Ints) -> Ints:
    """The value of each number, 0 for -1."""
    return np.where(numbers >= 0, values[numbers], 0) if len(values) else np.zeros(len(numbers), np.int64)


def likelihoods(steps: Steps, weights: Floats) -> Floats:
    """The probability of each outcome; those of a transition add up to 1."""
    scores = weights @ steps.features
    scores = np.exp(scores - np.maximum.reduceat(scores, steps.begins)[steps.rows])
    found: Floats = scores / np.add.reduceat(scores, steps.begins)[steps.rows]
    return found


def fitted(steps: Steps) -> Floats:
    """The weights with the highest likelihood."""
    features = steps.features
    weights = np.full(len(features), 1.0 / max(len(features) - 1, 1))
    weights[0] = 1.0
    if len(features) == 1 or not len(steps.rows):
        return weights  # the baseline has no weights
    happened = features[:, steps.happened].sum(axis=1)
    for _ in range(ROUNDS_MAX):
        likely = likelihoods(steps, weights)
        expected = np.add.reduceat(features * likely, steps.begins, axis=1)
        spread = (features * likely) @ features.T - expected @ expected.T
        change = np.linalg.solve(spread + RIDGE * np.eye(len(features)), happened - expected.sum(axis=1))
        weights = weights + np.clip(change, -1, 1)
        if np.abs(change).max() < SETTLED:
            break
    return weights


# ---------------------------------------------------------------- judging


@dataclass(frozen=True)
class Score:
    """The accuracy of a model on a number of transitions."""

    transitions: int = 0
    top_1: float = 0.0
    top_3: float = 0.0
    log_loss: float = 0.0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            self.transitions + other.transitions,
            self.top_1 + other.top_1,
            self.top_3 + other.top_3,
            self.log_loss + other.log_loss,
        )

    def row(self) -> tuple[int, float, float, float]:
        """The four numbers."""
        return self.transitions, self.top_1, self.top_3, self.log_loss

    def mean(self) -> dict[str, Any]:
        """A sum as shares."""
        number = max(self.transitions, 1)
        shares = {name: round(getattr(self, name) / number, 4) for name in ("top_1", "top_3", "log_loss")}
        return {"transitions": self.transitions, **shares}


def scored(steps: Steps, weights: Floats, places: int) -> Score:
    """The sum over some transitions. (rules 3 and 4)"""
    if not len(steps.rows):
        return Score()
    likely = likelihoods(steps, weights)
    happened = np.flatnonzero(steps.happened)
    is_named = steps.to[happened] >= 0
    loss = -np.log(np.where(is_named, likely[happened], likely[happened] / places))
    guessed = np.where(steps.to >= 0, likely, -1.0)
    own = guessed[happened][steps.rows]
    ahead = (guessed > own) | ((guessed == own) & (np.arange(len(guessed)) < happened[steps.rows]))
    rank = np.add.reduceat(ahead, steps.begins, dtype=np.int64)
    hits = [float((is_named & (rank < most)).sum()) for most in (1, 3)]
    return Score(len(happened), hits[0], hits[1], float(loss.sum()))


def accuracy(keyed: "DataFrame", places: Sequence[str]) -> dict[str, Any]:
    """The accuracy of each of `MODELS` on the test part of transitions with `contexts`; and its weights."""
    from pyspark.sql import functions as fn

    spark = keyed.sparkSession
    numbers = spark.createDataFrame(list(zip(places, range(len(places)), strict=True)), "to string, number bigint")
    keyed = keyed.join(fn.broadcast(numbers), "to").drop("to").withColumnRenamed("number", "to").persist()
    try:
        counts = outcomes(keyed).toArrow()
        few, many = (_tables(counts, column, len(places)) for column in ("few", "many"))
        sample = keyed.where("part = 1").orderBy("nth").limit(FITTED_MAX).toArrow()
        weights = {
            name: fitted(steps_of(few, chains, *_arrays(sample.combine_chunks()))) for name, chains in MODELS.items()
        }
        held = spark.sparkContext.broadcast((many, weights, len(places)))
        judged = keyed.where("part = 2").mapInArrow(
            lambda batches: _judge(batches, *held.value),
            "model string, transitions bigint, a double, b double, c double",
        )
        scores: dict[str, Score] = dict.fromkeys(MODELS, Score())
        for row in judged.toArrow().to_pylist():
            scores[row["model"]] += Score(row["transitions"], row["a"], row["b"], row["c"])
        held.destroy()
    finally:
        keyed.unpersist()
    if not scores["first order"].transitions:
        raise PipelineError("there are too few transitions to evaluate a model: at least 4 of one client are needed")
    return {
        "split": {"counted": PARTS[0], "weights": round(PARTS[1] - PARTS[0], 3), "test": round(1 - PARTS[1], 3)},
        "places": len(places),
        "models": {
            name: scores[name].mean() | {"weights": _named(weights[name], MODELS[name]) if MODELS[name] else {}}
            for name in MODELS
        },
    }


def _named(weights: Floats, chains: Sequence[str]) -> Mapping[str, float]:
    return {name: round(float(weight), 3) for name, weight in zip(("first order", *chains), weights, strict=True)}


def _tables(counts: Any, column: str, places: int) -> list[Counted]:
    """The counts of each of `KINDS`."""
    kind, key, to, number = (counts[name].to_numpy() for name in ("kind", "key", "to", column))
    found = []
    for wanted in _numbers():
        here = (kind == wanted) & (number > 0)
        found.append(Counted.of(key[here], to[here], number[here].astype(np.int64), places))
    return found


def _arrays(batch: Any) -> tuple[list[Ints], Ints]:
    """The keys of transitions, and their next places."""
    return [batch[f"key_{number}"].to_numpy() for number in _numbers()], batch["to"].to_numpy()


def _judge(
    batches: Iterable[Any], tables: Sequence[Counted], weights: Mapping[str, Floats], places: int
) -> Iterator[Any]:
    """One row for each model: the sum over all batches."""
    sums = dict.fromkeys(weights, Score())
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            keys, to = _arrays(batch.slice(start, ROWS_AT_ONCE))
            for name, held in weights.items():
                sums[name] += scored(steps_of(tables, MODELS[name], keys, to), held, places)
    columns = list(zip(*((name, *score.row()) for name, score in sums.items()), strict=True))
    names = ["model", "transitions", "a", "b", "c"]
    yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)
