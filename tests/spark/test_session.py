"""The session starts, is quiet, and says in one sentence why it cannot."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from godwit.errors import PipelineError
from godwit.pipeline import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_job_runs_and_prints_nothing(spark: "SparkSession", capfd: pytest.CaptureFixture[str]) -> None:
    assert spark.range(1000).selectExpr("sum(id)").collect()[0][0] == 499_500
    assert capfd.readouterr() == ("", "")


def test_names_keep_their_case(spark: "SparkSession") -> None:
    assert spark.sql("select 1 as a, 2 as A").select("A").collect()[0][0] == 2


def test_checkpoints_are_written_without_starting_readlink(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark's other way to write checkpoints starts 24 processes for each batch of a stream."""
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    assert jvm is not None
    managers = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
    manager = getattr(managers, "MODULE$").create(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), conf)
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_the_version_of_java_is_read(text: str, version: int | None) -> None:
    assert spark_session.java_version(text) == version


def test_a_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"needs Java 17 or newer: JAVA_HOME is .*, and there is no bin/java in it"):
        spark_session.check_java()


def test_too_old_a_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=r"is Java 8$"):
        spark_session.check_java()
