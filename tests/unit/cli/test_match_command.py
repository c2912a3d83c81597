"""`godwit match`: what it prints, what it does about bad lines, and that it answers as soon as it can."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from godwit.cli import input_files, main, match_command, statuses
from godwit.cli.terminal import Progress

SUBSCRIPTIONS = [
    {"id": 9, "filter": "price < 10"},
    {"id": 7, "filter": "price < 5 AND tags = 'new'"},
    {"id": "all", "filter": "TRUE"},
    {"id": 1, "filter": "sym IS NULL"},
]
EVENTS: list[Any] = [
    {"id": 3, "attributes": {"price": 4, "tags": ["old", "new"]}},
    {"id": "x", "attributes": {"price": 7, "sym": "A"}},
    {"attributes": {"sym": "B"}},
]
ANSWERS = """\
{"event": 3, "subscriptions": [9, 7, "all", 1]}
{"event": "x", "subscriptions": [9, "all"]}
{"event": 3, "subscriptions": ["all"]}
"""


def json_lines(*documents: Any) -> str:
    return "".join(f"{json.dumps(document)}\n" for document in documents)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_text(json_lines(*SUBSCRIPTIONS))
    (tmp_path / "e.jsonl").write_text(json_lines(*EVENTS))
    return tmp_path


def match(
    *options: str, input: str | bytes | None = None, subscriptions: str = "s.jsonl", events: str = "e.jsonl"
) -> Result:
    words = ["match", "--subscriptions", subscriptions, "--events", events, "--matcher", "naive", *options]
    return CliRunner().invoke(main.app, words, input=input)


@pytest.mark.parametrize("matcher", ["index", "naive", "bdd"])
def test_it_prints_a_line_for_each_event_with_subscriptions_in_the_order_of_their_file(
    files: Path, matcher: str
) -> None:
    assert match("--matcher", matcher).output == ANSWERS


def test_a_filter_may_be_in_its_json_form(files: Path) -> None:
    from godwit.filters.language import parse, to_json

    (files / "s.jsonl").write_text(json_lines({"id": 1, "filter": to_json(parse("price BETWEEN 5 AND 8"))}))
    assert match().output.count("[1]") == 1


def test_many_events_go_through_as_batches_and_give_the_same(files: Path) -> None:
    (files / "e.jsonl").write_text(json_lines(*({"id": n, "attributes": {"price": n / 100}} for n in range(3_000))))
    found = [json.loads(line) for line in match().output.splitlines()]
    assert [answer["event"] for answer in found] == list(range(3_000))
    assert [9 in answer["subscriptions"] for answer in found] == [n < 1_000 for n in range(3_000)]


@pytest.mark.parametrize("option", ["subscriptions", "events"])
def test_a_dash_is_standard_input(files: Path, option: str) -> None:
    file = files / f"{option[0]}.jsonl"
    assert match(input=file.read_text(), **{option: "-"}).output == ANSWERS


def test_both_from_standard_input_is_an_error(files: Path) -> None:
    shown = match(subscriptions="-", events="-")
    assert shown.exit_code == statuses.STATUS_ERROR
    assert "only one of" in shown.output


def test_a_file_that_is_not_there_is_an_error(files: Path) -> None:
    shown = match(events="gone.jsonl")
    assert (shown.exit_code, shown.output) == (2, "error: cannot read gone.jsonl: No such file or directory\n")


def test_count_shows_totals_as_one_line_of_json_on_a_pipe(files: Path) -> None:
    totals = json.loads(match("--count").output)
    assert totals.pop("events_per_second") > 0
    assert totals == {"events": 3, "subscriptions": 4, "matching_pairs": 7, "skipped": 0}


# ---------------------------------------------------------------- contexts

CREW = [
    {"id": "Mia", "filter": "kind = 'fire'", "sender": "battery > 20", "context": {"role": "medic", "floor": 2}},
    {"id": "Noah", "filter": "kind = 'fire'", "context": {"role": ["pilot", "medic"]}},
    {"id": "near", "filter": "kind = 'fire' AND floor = my.floor", "context": {"floor": 2}},
    {"id": "lost", "filter": "kind = 'fire' AND floor = my.floor", "context": {}},
    {"id": "Press", "filter": "kind = 'fire' AND NOT sender.role = 'drill'"},
]
FIRE = {"kind": "fire", "floor": 2}
CALLS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["Noah", "near"]),
    ({"sender": {"battery": 80}}, ["Mia", "Noah", "near"]),
    ({"sender": {"battery": 12, "role": "sensor"}}, ["Noah", "near", "Press"]),
    ({"sender": {"role": "drill"}}, ["Noah", "near"]),
    ({"sender": {}}, ["Noah", "near"]),
    ({"sender": {"battery": 80}, "to": "role = 'medic'"}, ["Mia", "Noah"]),
    ({"sender": {"battery": 80}, "to": {"some": "floor", "in": {"one_of": [2]}}}, ["Mia", "near"]),
    ({"sender": {"battery": 80, "floor": 2}, "to": "floor = my.floor"}, ["Mia", "near"]),
    ({"to": "role IS NULL", "sender": {"role": "sensor"}}, ["near", "Press"]),
    ({"to": "badge = 7"}, []),
    ({"to": "FALSE"}, []),
    ({"to": None}, ["Noah", "near"]),
    ({"to": "TRUE"}, ["Noah", "near"]),
]


@pytest.mark.parametrize("matcher", ["index", "naive", "bdd"])
@pytest.mark.parametrize("times", [1, 5])
def test_events_reach_whom_they_mean_and_who_means_their_sender(files: Path, matcher: str, times: int) -> None:
    (files / "s.jsonl").write_text(json_lines(*CREW))
    (files / "e.jsonl").write_text(json_lines(*({"attributes": FIRE, **call} for call, _ in CALLS * times)))
    shown = match("--matcher", matcher)
    assert shown.stderr == ""
    found = [json.loads(line)["subscriptions"] for line in shown.stdout.splitlines()]
    assert found == [meant for _, meant in CALLS * times]
    totals = json.loads(match("--matcher", matcher, "--count").stdout)
    assert totals["matching_pairs"] == sum(len(meant) for _, meant in CALLS * times)


def test_what_is_known_of_the_sender_may_stand_among_the_attributes_and_in_a_table(files: Path) -> None:
    (files / "s.jsonl").write_text(json_lines(CREW[0]))
    (files / "e.jsonl").write_text(json_lines({"id": 1, "attributes": {"kind": "fire", "sender.battery": 80}}))
    assert match().stdout == '{"event": 1, "subscriptions": ["Mia"]}\n'
    (files / "e.csv").write_text("kind,sender.battery\nfire,80\nfire,8\n")
    assert match(events="e.csv").stdout == '{"event": 1, "subscriptions": ["Mia"]}\n{"event": 2, "subscriptions": []}\n'


# ---------------------------------------------------------------- bad lines

BAD_SUBSCRIPTIONS = [
    ("{", "ends too soon"),
    (r'{"attributes": {"a": "\ud800"}}', "half of a surrogate pair"),
    ('{"id": 1}', "`filter`"),
    ('{"id": true, "filter": "TRUE"}', "`int | str`"),
    ('{"id": 2, "filter": "price <"}', "column 8"),
    ('{"id": 2, "filter": {"what": 1}}', ""),
    ('{"id": 2, "filter": 7}', ""),
    (
        '{"id": 2, "filter": "price < my.limit"}',
        'filter: it refers to my.limit, the subscriber\'s own context, and the line says none: add "context": {"limit"',
    ),
    ('{"id": 2, "filter": "x WITHIN myloc(2)"}', 'add "context": {"location": …}'),
    (
        '{"id": 2, "filter": "TRUE", "sender": "floor = my.floor"}',
        "sender: it refers to my.floor, the subscriber's own",
    ),
    ('{"id": 2, "filter": "TRUE", "to": "floor = 2"}', "to: only events have this field"),
    ('{"id": 2, "filter": "TRUE", "sender": "battery >"}', "sender: line 1, column 10"),
    (
        '{"id": 2, "filter": "TRUE", "sender": "sender.battery > 20"}',
        "sender: a filter on a context cannot name sender.",
    ),
    ('{"id": 2, "filter": "TRUE", "sender": {"some": "battery"}}', "sender: $: 'some' needs 'in'"),
    (
        '{"id": 2, "filter": "TRUE", "context": "medic"}',
        "context: a context is a table of names and values, and this is a str",
    ),
    (
        '{"id": 2, "filter": "TRUE", "context": [1]}',
        "context: a context is a table of names and values, and this is a list",
    ),
    ('{"id": 2, "filter": "TRUE", "context": {"my.role": "medic"}}', "context: a context: attribute 'my.role'"),
    ('{"id": 2, "filter": "TRUE", "context": {"a": [' + "1, " * 599 + "1]}}", "4801 bytes: at most 4096"),
    (
        '{"id": 2, "filter": "x WITHIN myloc(2)", "context": {"location": "market"}}',
        "filter: the filter asks what lies 2 steps around 'market', and there is no movement graph here",
    ),
    ('{"id": "twice", "filter": "TRUE"}', "'twice' already"),
    ('{"id": 2, "filter": ' + "[" * 100_000, "nested too deep"),
    ('{"id": 2, "filter": "' + " OR ".join(["a = 1 AND b = 2"] * 15_000) + '"}', ""),
    ('{"id": 2, "filter": "a = 1' + " " * 5_000_000 + '"}', "longer than"),
]
BAD_EVENTS = [
    ("[]", "Expected"),
    ('{"id": 1}', "`attributes`"),
    ('{"id": 1, "attributes": {"x": 1e999}}', ""),
    ('{"id": 1, "attributes": {"x": ' + "9" * 10_000 + "}}", ""),
    ('{"id": 1, "attributes": ' + '{"a":' * 100_000, "nested too deep"),
    ('{"id": 1, "attributes": {"x": ' + "[" * 40 + "1" + "]" * 40 + "}}", "nested deeper"),
    ('{"id": 1, "attributes": {' + ",".join(f'"a{n}": 1' for n in range(100_000)) + "}}", "100000 attributes"),
    ('{"id": 1.5, "attributes": {}}', "$.id"),
    ('{"id": 1, "attributes": {"x": "' + "a" * 5_000_000 + '"}}', "longer than"),
    ('{"id": 1, "attributes": {"": 1}}', "attribute name"),
    ('{"id": 1, "attributes": {}, "sender": 7}', "sender: a context is a table of names and values, and this is a int"),
    ('{"id": 1, "attributes": {}, "sender": "role = 1"}', "sender: a context is a table of names and values"),
    ('{"id": 1, "attributes": {}, "sender": {"x": {"lon": 8, "lat": 99}}}', "sender: a context: attribute 'x': lat"),
    ('{"id": 1, "attributes": {"sender.x": 1}, "sender": {"y": 1}}', "attribute 'sender.x': the line has a 'sender'"),
    ('{"id": 1, "attributes": {}, "to": "role ="}', "to: line 1, column 7"),
    ('{"id": 1, "attributes": {}, "to": 7}', "to: $: 7 is not a filter"),
    ('{"id": 1, "attributes": {}, "to": "sender.role = 1"}', "to: a filter on a context cannot name sender.role"),
    (
        '{"id": 1, "attributes": {}, "to": "floor = my.floor"}',
        'to: it refers to my.floor, the publisher\'s own context, and the line says none: add "sender": {"floor": …}',
    ),
]


@pytest.mark.parametrize(("line", "reason"), BAD_SUBSCRIPTIONS)
def test_a_bad_subscription_is_reported_with_its_line_and_skipped(files: Path, line: str, reason: str) -> None:
    good = '{"id": "twice", "filter": "price < 10"}\n'
    (files / "s.jsonl").write_text(good + "\n" + line + "\n" + good.replace("twice", "last"))
    shown = match()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == '{"event": 3, "subscriptions": ["twice", "last"]}'
    assert shown.stderr.startswith("s.jsonl:3: ")
    assert reason in shown.stderr
    assert shown.stderr.endswith("skipped 1 bad line\n")
    assert len(shown.stderr) < 2_000


@pytest.mark.parametrize(("line", "reason"), BAD_EVENTS)
def test_a_bad_event_is_reported_with_its_line_and_skipped(files: Path, line: str, reason: str) -> None:
    (files / "e.jsonl").write_text(line + "\n" + json_lines(*EVENTS[:1]) + line)
    shown = match()
    assert (shown.exit_code, shown.stdout) == (0, ANSWERS[: ANSWERS.index("\n") + 1])
    assert "e.jsonl:1: " in shown.stderr
    assert "e.jsonl:3: " in shown.stderr
    assert reason in shown.stderr
    assert shown.stderr.endswith("skipped 2 bad lines\n")
    assert len(shown.stderr) < 2_000


@pytest.mark.parametrize("file", ["s.jsonl", "e.jsonl", "e.csv"])
def test_malformed_utf_8_is_a_bad_line(files: Path, file: str) -> None:
    (files / "e.csv").write_text("price\n3\n")
    with (files / file).open("ab") as stream:
        stream.write(b'{"id": 5, "attributes": {"x": "\xff"}, "filter": "x = \'\xff\'"}\n')
    shown = match(events=file if file.startswith("e") else "e.jsonl")
    assert shown.exit_code == 0
    assert "skipped 1 bad line" in shown.stderr


@pytest.mark.parametrize(("file", "line"), [("s.jsonl", 5), ("e.jsonl", 4)])
def test_strict_stops_at_the_first_bad_line(files: Path, file: str, line: int) -> None:
    with (files / file).open("a") as stream:
        stream.write("nonsense\n")
    shown = match("--strict")
    assert shown.exit_code == statuses.STATUS_ERROR
    assert shown.stderr.startswith(f"error: {file}:{line}: JSON is malformed")


# ---------------------------------------------------------------- CSV


def csv(files: Path, table: str, **options: str) -> list[tuple[str, dict[str, Any]]]:
    faults = input_files.BadLines(lambda message: None)
    lines = input_files.Lines(io.BytesIO(table.encode()), "e.csv")
    return [(str(id), dict(event.attributes)) for id, event in filter(None, input_files.csv_events(lines, faults))]


def test_a_table_has_numbers_bools_texts_and_missing_attributes(files: Path) -> None:
    table = 'id,price,hot,sym,zip\n7,4.5,true,"A, B",0800\nx,-3,FALSE,,\n,1e3,maybe,nan,8001\r\n'
    assert csv(files, table) == [
        ("7", {"price": 4.5, "hot": True, "sym": "A, B", "zip": "0800"}),
        ("x", {"price": -3, "hot": False}),
        ("3", {"price": 1000.0, "hot": "maybe", "sym": "nan", "zip": 8001}),
    ]


def test_a_table_on_a_pipe_is_announced(files: Path) -> None:
    answered = match("--csv", events="-", input="id,price\n5,7\n").output
    assert answered == '{"event": 5, "subscriptions": [9, "all", 1]}\n'


def test_a_table_without_ids_numbers_its_rows_and_a_text_may_span_lines(files: Path) -> None:
    assert csv(files, '\ufeffa,b\n1,"two\nlines"\n\n2,\n') == [("1", {"a": 1, "b": "two\nlines"}), ("2", {"a": 2})]


@pytest.mark.parametrize("row", ["1", "1,2,3", '"1"2,3', f'"{"x" * 200_000}",1', "9" * 5_000 + ",1", "1e999,1", '1,"'])
def test_a_bad_row_is_reported_and_skipped(files: Path, row: str) -> None:
    (files / "e.csv").write_text(f"price,b\n3,1\n{row}\n")
    shown = match(events="e.csv")
    assert shown.stdout == '{"event": 1, "subscriptions": [9, "all", 1]}\n'
    assert shown.stderr.startswith("e.csv:3: ")
    assert len(shown.stderr) < 500


@pytest.mark.parametrize("header", ["a,a", "a,,b"])
def test_a_header_that_does_not_name_its_columns_is_an_error(files: Path, header: str) -> None:
    (files / "e.csv").write_text(f"{header}\n1,2\n")
    shown = match(events="e.csv")
    assert (shown.exit_code, shown.stderr.startswith("error: e.csv:1: column 2 of the header")) == (2, True)


# ---------------------------------------------------------------- streams


class Trickle(io.RawIOBase):
    """A stream that gives one piece at a time, as a slow pipe does."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def read1(self, size: int = -1) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    lines = input_files.Lines(Trickle(b"on", b"e\ntwo\r\n", b"\n", b"thr", b"ee"), "pipe")  # type: ignore[arg-type]
    assert list(lines) == [b"one", b"two", b"", b"three"]


def test_a_line_that_is_too_long_is_dropped_and_the_next_is_read() -> None:
    long = [b"x" * input_files.READ_BYTES] * 10
    lines = input_files.Lines(Trickle(b"a\n", *long, b"x\nb\n", *long), "pipe")  # type: ignore[arg-type]
    assert list(lines) == [b"a", None, b"b", None]


def test_a_batch_is_what_has_arrived_even_when_it_ends_with_a_bad_line() -> None:
    good, bad = b'{"attributes": {"x": 1}}\n', b"nonsense\n"
    lines = input_files.Lines(Trickle(good + good + bad, good, bad, good), "pipe")  # type: ignore[arg-type]
    faults = input_files.BadLines(lambda message: None)
    sizes = [(len(batch), lines.number) for batch in input_files.batches(input_files.json_events(lines, faults), lines)]
    assert sizes == [(2, 3), (1, 4), (1, 6)]
    table = input_files.Lines(Trickle(b"x\n1\n2\n\xff\n", b"3\n"), "pipe")  # type: ignore[arg-type]
    sizes = [(len(batch), table.number) for batch in input_files.batches(input_files.csv_events(table, faults), table)]
    assert sizes == [(2, 4), (1, 5)]


def test_an_endless_pipe_is_answered_line_by_line(files: Path) -> None:
    words = ["match", "--subscriptions", "s.jsonl", "--events", "-", "--matcher", "naive"]
    program = [sys.executable, "-c", "from godwit.cli.main import app; app()", *words]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        for number in range(3):
            process.stdin.write(json_lines({"id": number, "attributes": {"price": 7}}))
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"event": number, "subscriptions": [9, "all", 1]}
        process.stdin.close()
    assert process.returncode == 0


def test_who_stops_reading_the_answers_gets_no_complaint(files: Path) -> None:
    words = ["match", "--subscriptions", "s.jsonl", "--events", "-", "--matcher", "naive"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from godwit.cli.main import app; app()", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin
    assert process.stdout
    process.stdout.close()
    process.stdin.write(json_lines(EVENTS[0]).encode())
    _, complaint = process.communicate()
    assert (process.returncode, complaint) == (0, b"")


def test_a_bad_line_is_reported_above_the_bar_to_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    with Progress() as bar:
        bar.add_task("events", total=None)
        match_command.report(bar, "e.csv:4: [bold] :smile: " + "x" * 80)
    assert "e.csv:4: [bold] :smile: " + "x" * 80 + "\n" in screen.getvalue()


def test_equal_texts_become_one_filter() -> None:
    lines = input_files.Lines(
        io.BytesIO(json_lines(*({"id": n, "filter": "price < 10"} for n in range(3))).encode()), "s"
    )
    first, *others = (each.filter for each in input_files.subscriptions(lines, input_files.BadLines(print)))
    assert all(other is first for other in others)


def test_a_file_without_a_single_event_is_told_what_it_must_be(files: Path) -> None:
    (files / "page.md").write_text("# A page\n")
    shown = match(events="page.md")
    assert (shown.exit_code, shown.stdout) == (0, "")
    told = "page.md has no events: it must be JSON lines, or a table whose name ends in .csv\nskipped 1 bad line\n"
    assert shown.stderr.endswith(told)
