"""What the pipeline is measured beside: the same matches by joins of Spark SQL and of DuckDB, on the same files.

| way | how |
|---|---|
| plain | one join of events with the table of nullable bounds: nobody sees a key in it, so it is a nested loop |
| tuned | subscriptions that fix one of the keys (`symbol`) by a hash join on it, the rest by a nested loop |
| shapes | a join for each set of conditions that occurs, without nulls: hash joins, range joins where there are any |

A person would write `tuned`; `shapes` is what a program could, and the most that we could get out of either engine. In
both, an equality that has one value only (`class = 'STOCK'`) is a condition on events alone. In the nested loop of
`tuned`, a bound that is null is made one that all events pass, so that DuckDB sees a range join.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.pipeline_data import Condition, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ("plain", "tuned", "shapes")
CORES = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """What two engines write differently."""

    quote: str
    has: str  # a list has a value
    begins: str
    ends: str

    def name(self, table: str, column: str) -> str:
        """A column of a table."""
        return f"{table}.{self.quote}{column}{self.quote}"


SPARK = Dialect("`", "array_contains", "startswith", "endswith")
DUCKDB = Dialect('"', "list_contains", "starts_with", "ends_with")


def joins(work: Work, way: str) -> list[tuple[list[int], str]]:
    """The joins of a way: which shapes of subscriptions each takes, and the key that they all have, if any."""
    every = list(range(len(work.shapes)))
    if way == "plain":
        return [(every, "")]
    if way == "shapes":
        return [([shape], "") for shape in every]
    found: dict[str, list[int]] = {}
    for shape in every:
        fixed = {work.conditions[place].attribute for place in work.shapes[shape] if _is_key(work.conditions[place])}
        found.setdefault(next((key for key in work.keys if key in fixed), ""), []).append(shape)
    return [(shapes, key) for key, shapes in found.items()]


def _is_key(condition: Condition) -> bool:
    return condition.operator == "=" and not condition.several


def selects(work: Work, way: str, dialect: Dialect, events: str, subscriptions: str, what: str) -> list[str]:
    """A query for each join of a way."""
    found = []
    is_plain = way == "plain"
    for shapes, key in joins(work, way):
        held = [set(work.shapes[shape]) for shape in shapes]
        used, always = sorted(set().union(*held)), set.intersection(*held)
        on = []
        for place in used:
            condition = work.conditions[place]
            bound = dialect.name("s", condition.column)
            bears_null = is_plain or place not in always
            if place in work.constants and not bears_null:
                bound = _literal(work.constants[place])
            elif place in work.passing and bears_null and not is_plain and not key:
                bound, bears_null = f"coalesce({bound}, {work.passing[place]})", False
            said = _said(condition, dialect, dialect.name("e", condition.attribute), bound)
            on.append(f"({bound} IS NULL OR {said})" if bears_null else said)
        chosen = ", ".join(map(str, shapes))
        wanted = subscriptions if is_plain else f"(SELECT * FROM {subscriptions} s WHERE shape IN ({chosen}))"
        found.append(f"SELECT {what} FROM {events} e JOIN {wanted} s ON {' AND '.join(on) or 'TRUE'}")
    return found


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _said(condition: Condition, dialect: Dialect, held: str, bound: str) -> str:
    """A condition as SQL: true, or false, or null where the attribute is missing."""
    match condition.operator:
        case "=" if condition.several:
            return f"{dialect.has}({held}, {bound})"
        case "in":
            return f"{dialect.has}({bound}, {held})"
        case "not in":
            return f"NOT {dialect.has}({bound}, {held})"
        case "prefix":
            return f"{dialect.begins}({held}, {bound})"
        case "suffix":
            return f"{dialect.ends}({held}, {bound})"
        case "contains":
            return f"contains({held}, {bound})"
        case "beyond":
            return f"({held} > {bound} OR {held} < -{bound})"
        case "exists":
            return f"{held} IS NOT NULL"
        case operator:
            return f"{held} {operator} {bound}"


def counted(parts: Sequence[str]) -> str:
    """How many pairs all the joins give."""
    return f"SELECT sum(pairs) FROM ({' UNION ALL '.join(parts)})"


# ---------------------------------------------------------------- Spark SQL


def spark_views(spark: "SparkSession", work: Work, of: int = 1) -> tuple[str, str]:
    """Names for the two tables; of the events, one in `of`, from all files alike."""
    table = spark.read.parquet(str(work.table))
    if of > 1:
        table = table.where(f"sequence % {of} = 0")
    table.createOrReplaceTempView("bench_events")
    spark.read.parquet(str(work.bounds)).createOrReplaceTempView("bench_subscriptions")
    return "bench_events", "bench_subscriptions"


def spark_count(spark: "SparkSession", work: Work, way: str, of: int = 1) -> int:
    """Pairs, by Spark SQL."""
    parts = selects(work, way, SPARK, *spark_views(spark, work, of), "/*+ BROADCAST(s) */ count(*) AS pairs")
    return int(spark.sql(counted(parts)).collect()[0][0])


def spark_write(spark: "SparkSession", work: Work, way: str, out: Path) -> None:
    """All pairs to Parquet: the number of the event and the subscription."""
    parts = selects(work, way, SPARK, *spark_views(spark, work), "/*+ BROADCAST(s) */ e.sequence, s.id")
    spark.sql(" UNION ALL ".join(parts)).write.parquet(str(out))


# ---------------------------------------------------------------- DuckDB


class Duck:
    """DuckDB on two cores, in memory."""

    def __init__(self, work: Work, of: int = 1) -> None:
        import duckdb

        self.work = work
        self.connection = duckdb.connect()
        self.connection.execute(
            f"SET threads = {CORES}; SET memory_limit = '4GB'; SET preserve_insertion_order = false"
        )
        files = f"read_parquet('{work.table}/*/*.parquet', hive_partitioning = false)"
        self.events = files if of == 1 else f"(SELECT * FROM {files} WHERE sequence % {of} = 0)"
        self.subscriptions = f"read_parquet('{work.bounds}')"

    def count(self, way: str) -> int:
        """Pairs."""
        parts = selects(self.work, way, DUCKDB, self.events, self.subscriptions, "count(*) AS pairs")
        return int(self._answer(counted(parts)))

    def write(self, way: str, out: Path) -> None:
        """All pairs to Parquet, a file a thread."""
        parts = selects(self.work, way, DUCKDB, self.events, self.subscriptions, "e.sequence, s.id")
        self._answer(f"COPY ({' UNION ALL '.join(parts)}) TO '{out}' (FORMAT parquet, PER_THREAD_OUTPUT)")

    def _answer(self, query: str) -> Any:
        return self.connection.execute(query).fetchall()[0][0]


def pairs_in(folder: Path) -> int:
    """How many pairs a folder of Parquet files holds: what was written, after the clock has stopped."""
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.rglob("*.parquet"))
