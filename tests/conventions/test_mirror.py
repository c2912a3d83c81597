"""The tests of a module are found by its path: `src/godwit/a/b.py` has `tests/unit/a/test_b.py`."""

from pathlib import Path

from tests.conventions.repository import PACKAGE, ROOT

UNIT = ROOT / "tests" / "unit"

SUBJECTS = {
    "benchmarks/test_benchmarks.py": "all benchmarks of matching, and how they are reported",
    "benchmarks/test_network_benchmark.py": "`benchmarks/network*.py`",
    "benchmarks/test_pipeline_benchmark.py": "`benchmarks/pipeline*.py`",
    "benchmarks/test_teamwork_benchmark.py": "`benchmarks/teamwork*.py`",
    "broker/test_contexts_at_the_edge.py": "sessions, greetings and quenching: contexts at both edges",
    "broker/test_spcf_brokers.py": "SPCF in whole brokers, in every mode of moving",
    "broker/test_unread.py": "client, session and network client: what was read",
    "cli/test_cli_languages.py": "`filter` and `match`, with queries of other languages",
    "cli/test_pipeline_summaries.py": "all commands of the pipeline",
    "filters/test_language_reference.py": "a page of docs/reference",
    "languages/native/test_filter_language_page.py": "a page of docs/reference",
    "languages/test_cql2_reading.py": "both encodings of CQL2: text and JSON",
    "languages/test_cql2_reference.py": "a page of docs/reference",
    "languages/test_impossible_queries.py": "all languages",
    "languages/test_xml_routing.py": "all languages over documents",
    "languages/tiers/test_listings.py": "the listings of a paper, in all tiers",
    "languages/xql/test_white_space.py": "filter and exact test together",
    "matching/test_plain_kernels.py": "kernels with and without Numba",
    "matching/test_records.py": "placing, layout and kernels: records in buckets",
    "mqtt/test_mqtt_packets.py": "packets, their decoder and their encoder",
    "mqtt/test_topic_routing.py": "topics and both routing families",
    "pipeline/test_mining_movement.py": "all of `pipeline/mobility`",
    "pipeline/test_sources_and_sinks.py": "formats and sinks of other packages",
    "pipeline/test_track_formats.py": "four formats of `pipeline/formats`",
    "runtime/test_bridge_kafka.py": "offsets, records and routes of a bridge to Kafka",
    "runtime/test_journal_loss.py": "journal, marks and checks: what a disk may lose",
    "runtime/test_publisher_configuration.py": "configuration and journal: publishers that move",
    "teamwork/test_ended_devices.py": "devices that were lost: keys, messages, searches, presence",
    "teamwork/commands/test_commands.py": "all modules of commands",
    "teamwork/test_mail_outage.py": "queue and channels of notifications over a day",
    "teamwork/test_organisation_schema.py": "settings, opening and folder of peers",
    "teamwork/test_presence_news.py": "presence, listeners and subscriptions",
    "test_deploy.py": "files of `deploy`",
    "test_home_assistant.py": "the add-on for Home Assistant",
}
"""Test files of a subject that several modules share, and which."""


def without_module(unit: Path, package: Path) -> list[str]:
    """Test files that have no module or package of their path."""
    found = []
    for path in sorted(unit.rglob("test_*.py")):
        module = package / path.relative_to(unit).with_name(path.name.removeprefix("test_"))
        if not module.is_file() and not module.with_suffix("").is_dir():
            found.append(path.relative_to(unit).as_posix())
    return found


def test_unit_tests_stand_where_their_modules_do() -> None:
    found = without_module(UNIT, PACKAGE)
    assert sorted(set(found) - set(SUBJECTS)) == [], "name it after its module, or list its subject in SUBJECTS"
    assert sorted(set(SUBJECTS) - set(found)) == [], "it is gone, or has a module now: remove it from SUBJECTS"


def test_a_test_file_without_a_module_is_caught(tmp_path: Path) -> None:
    for name in (
        "src/a/b.py",
        "src/a/c/d.py",
        "unit/a/test_b.py",
        "unit/a/test_c.py",
        "unit/a/test_d.py",
        "unit/test_b.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert without_module(tmp_path / "unit", tmp_path / "src") == ["a/test_d.py", "test_b.py"]
