"""`aggregate.window` in a file: defaults, mistakes, the meaning in words, and the same windows built in Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.streams.agent import Agent, Window
from sluicegate.streams.aggregation.rule import earlier_agent, fingerprint
from sluicegate.streams.config import loading, words
from sluicegate.streams.config.checking import values
from sluicegate.streams.rules.changes import changes, policies_of
from sluicegate.streams.rules.document import document
from tests.unit.config.files import agent, lines, loaded


def windowed(window: str, more: str = "", aggregate: str = "") -> str:
    return agent(
        f"""
        from: orders
        aggregate: {{window: {window}, compute: {{total: {{sum: amount}}}}{aggregate}}}
        to: {{topic: totals}}
        {more}
        """
    )


def window_of(folder: Path, text: str) -> Window:
    file = loaded(folder, windowed(text))
    assert file.app is not None, file.problems
    rule = file.app.agents[0].aggregation
    assert rule is not None
    assert rule.window is not None
    return rule.window


def an_agent(folder: Path, text: str, more: str = "") -> Agent:
    file = loaded(folder, windowed(text, more))
    assert file.app is not None, file.problems
    return file.app.agents[0]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("{tumbling: 5m, grace: 30s}", Window(300.0, grace=30.0, idle=60.0, at_most=300 + 30 + 3600.0)),
        ("{tumbling: 5m, time: placed_at}", Window(300.0, time="placed_at", at_most=3900.0)),
        ("{tumbling: 5m, time: {field: ts, unit: ms}}", Window(300.0, time="ts", unit="ms", at_most=3900.0)),
        ("{tumbling: 5m, time: timestamp}", Window(300.0, at_most=3900.0)),
        ("{tumbling: 5m, time: {field: timestamp}}", Window(300.0, time="timestamp", at_most=3900.0)),
        (
            "{tumbling: 1d, offset: 6h, idle: never, late: skip}",
            Window(86400.0, 21600.0, idle=None, at_most=90000.0, late="skip"),
        ),
        ("{tumbling: 5m, at_most: never, max_ahead: 10s}", Window(300.0, at_most=None, max_ahead=10.0)),
        ("{tumbling: day}", Window(90_000.0, at_most=93_600.0, kind="calendar", calendar="day", zone="UTC")),
        (
            "{tumbling: week, zone: Europe/Vienna, grace: 1h}",
            Window(
                608_400.0,
                grace=3600.0,
                at_most=615_600.0,
                kind="calendar",
                calendar="week",
                zone="Europe/Vienna",
                week_starts="monday",
            ),
        ),
        ("{session: 30m, grace: 1m}", Window(1800.0, grace=60.0, at_most=1800 + 60 + 3600.0, kind="session")),
        ("{hopping: 1h, every: 5m}", Window(3600.0, at_most=7200.0, kind="hopping", every=300.0)),
        ("{sliding: 10m}", Window(600.0, grace=600.0, kind="sliding")),
        ("{sliding: 10m, grace: 0s, late: skip}", Window(600.0, late="skip", kind="sliding")),
        ("{last: 100}", Window(0.0, grace=60.0, kind="sliding", last=100)),
        ("{last: 100, grace: 0s}", Window(0.0, kind="sliding", last=100)),
        ("{sliding: 10m, last: 100}", Window(600.0, grace=600.0, kind="sliding", last=100)),
        ("{tumbling: 5m, late: {new: 10s}}", Window(300.0, at_most=3900.0, late="new", gather=10.0)),
        ("{tumbling: 5m, late: {amend: 1h}}", Window(300.0, at_most=3900.0, late="amend", keep=3600.0, gather=60.0)),
        (
            "{tumbling: 5m, late: {amend: 1h, every: 5s}}",
            Window(300.0, at_most=3900.0, late="amend", keep=3600.0, gather=5.0),
        ),
    ],
)
def test_a_file_says_which_windows_there_are(tmp_path: Path, text: str, window: Window) -> None:
    assert window_of(tmp_path, text) == window


@pytest.mark.parametrize(
    "text",
    [
        "{tumbling: 5m, time: a.b, grace: 0s, offset: 1m}",
        "{tumbling: 5m, idle: never}",
        "{tumbling: 5m, at_most: never}",
        "{session: 30m, grace: 1m}",
        "{hopping: 1h, every: 5m, offset: 1m}",
        "{session: 30m, late: {new: 10s}}",
        "{sliding: 10m}",
        "{sliding: 10m, grace: 0s, late: skip}",
        "{last: 100}",
        "{sliding: 10m, last: 100, grace: 0s}",
        "{tumbling: 5m, late: {amend: 1h, every: 5s}}",
        "{tumbling: day}",
        "{tumbling: week, zone: Europe/Vienna, week_starts: sunday, late: {amend: 1h}}",
    ],
)
def test_the_same_windows_built_in_python_pass_the_same_checks(tmp_path: Path, text: str) -> None:
    file = loaded(tmp_path, windowed(text))
    assert file.app is not None
    values.check(file.app)
    bad = replace(file.app.agents[0].aggregation, since_first=5.0)  # type: ignore[type-var]
    with pytest.raises(Exception, match="does not go together with a window"):
        values.check(replace(file.app, agents=(replace(file.app.agents[0], aggregation=bad),)))


AT = "f.yaml:8:5: agents.a.aggregate"
PAIR = "does not go together with a window"


@pytest.mark.parametrize(
    ("text", "more", "aggregate", "problem"),
    [
        ("{}", "", "", "window: names no kind of windows; write one of tumbling, hopping, session, sliding, last"),
        ("{tumbling: 5m, session: 1m}", "", "", "window: names tumbling and session: a window is of one kind"),
        (
            "{tumbling: 1d, offset: -8h}",
            "",
            "",
            "window.offset: is negative; add the length of a window: with windows of 1d, write 16h in place of -8h",
        ),
        (
            "{session: 5m, offset: 1m}",
            "",
            "",
            "window.offset: does not go together with session: records decide when a window begins; leave it out",
        ),
        ("{session: 5m, grace: 1m, at_most: 5m}", "", "", "window.at_most: is below the size and grace of the window"),
        (
            "{tumbling: 5}",
            "",
            "",
            "window.tumbling: is not a duration; write one number and ms, s, m, h or d, such as 30s",
        ),
        ("{tumbling: dy}", "", "", "window.tumbling: is not a duration; write one number and ms, s, m, h or d"),
        ("{hopping: day, every: 1h}", "", "", "window.hopping: is a unit of the calendar, which only tumbling windows"),
        ("{session: day}", "", "", "window.session: is a unit of the calendar, which only tumbling windows have"),
        ("{tumbling: day, every: 1h}", "", "", "window.every: does not go together with tumbling: day"),
        (
            "{tumbling: day, offset: 6h}",
            "",
            "",
            "window.offset: does not go together with tumbling: day: each window begins at midnight of its `zone`; "
            "leave it out, or write a duration, such as tumbling: 1d, whose windows an offset shifts",
        ),
        ("{tumbling: day, at_most: 24h}", "", "", "window.at_most: is below the size and grace of the window, 25 h"),
        ("{tumbling: 1d, zone: UTC}", "", "", "window.zone: does not go together with tumbling of one length"),
        ("{session: 1h, zone: UTC}", "", "", "window.zone: does not go together with session of one length"),
        ("{tumbling: day, week_starts: sunday}", "", "", "window.week_starts: does not go together with tumbling: day"),
        ("{tumbling: week, week_starts: sun}", "", "", "window.week_starts: must be monday, tuesday, wednesday"),
        (
            "{tumbling: day, zone: europe/vienna}",
            "",
            "",
            "window.zone: is not a time zone that this machine knows; did you mean Europe/Vienna?",
        ),
        ("{tumbling: day, zone: localtime}", "", "", "window.zone: is not a time zone that this machine knows; write"),
        ("{tumbling: day, zone: Europe}", "", "", "window.zone: is not a time zone that this machine knows"),
        ("{tumbling: day, zone: }", "", "", "window.zone: is empty; write a name such as Europe/Vienna"),
        ("{tumbling: 5m, hopping: 1m}", "", "", "window: names tumbling and hopping: a window is of one kind"),
        ("{hopping: 5m}", "", "", "window.hopping: needs `every`; write every: 5m, a part of the size"),
        ("{hopping: 5m, every: 2m}", "", "", "window.every: does not divide the size of the window"),
        ("{hopping: 5m, every: 5m}", "", "", "window.every: is the size of the window; write less, or tumbling"),
        ("{tumbling: 5m, every: 1m}", "", "", "window.every: does not go together with tumbling"),
        ("{hopping: 5m, every: 1m, offset: 1m}", "", "", "window.offset: is not below `every`; write less"),
        ("{tumbling: 5m, time: {unit: ms}}", "", "", "window.time: names no field"),
        ("{tumbling: 5m, time: {field: t, unit: ns}}", "", "", "window.time.unit: must be s, ms, us or rfc3339"),
        (
            "{tumbling: 5m, late: amend}",
            "",
            "",
            "window.late: names no action for late records; write dead-letter, skip",
        ),
        ("{tumbling: 5m, late: {every: 5s}}", "", "", "window.late: names no action for late records"),
        ("{tumbling: 5m, late: {new: 5s, amend: 1h}}", "", "", "window.late: names two actions for late records"),
        ("{tumbling: 5m, late: {new: 5s, action: skip}}", "", "", "window.late.action: unknown key; known here: "),
        ("{tumbling: 5m, late: {new: 5}}", "", "", "window.late.new: is not a duration"),
        ("{tumbling: 5m, late: {new: 5s, every: 1s}}", "", "", "window.late.every: does not go together with new"),
        ("{session: 5m, late: {amend: 5m}}", "", "", "window.late: does not go together with sessions: a late record"),
        ("{tumbling: 5m, late: {amend: 1h}}", "", ", count: 5", "count: does not go together with amend"),
        (
            "{tumbling: 5m, late: {amend: 1h}}",
            "",
            ", until: {field: a, equals: 1}",
            "until: does not go together with amend: a revised result replaces the one before",
        ),
        (
            "{tumbling: 5m, late: {amend: 1h}}",
            "",
            ", on_full: fire-oldest",
            "on_full: does not go together with amend: a revised result replaces the one before",
        ),
        ("{sliding: 5m, every: 1m}", "", "", "window.every: does not go together with sliding"),
        ("{sliding: 5m, offset: 1m}", "", "", "window.offset: does not go together with sliding"),
        ("{sliding: day}", "", "", "window.sliding: is a unit of the calendar, which only tumbling windows have"),
        ("{sliding: 5m, session: 5m}", "", "", "window: names session and sliding: a window is of one kind"),
        ("{sliding: 5m, at_most: 1h}", "", "", "window.at_most: does not go together with sliding: no result waits"),
        (
            "{sliding: 5m, idle: 1m}",
            "",
            "",
            "window.idle: does not go together with sliding: no result waits for silence",
        ),
        (
            "{sliding: 5m, late: {new: 1m}}",
            "",
            "",
            "window.late: does not go together with sliding: a late record is in",
        ),
        ("{sliding: 5m, late: {amend: 1m}}", "", "", "window.late: does not go together with sliding: a late record"),
        ("{last: 5, at_most: 1h}", "", "", "window.at_most: does not go together with last: no result waits"),
        ("{last: 5, every: 1m}", "", "", "window.every: does not go together with last"),
        ("{last: 5, offset: 1m}", "", "", "window.offset: does not go together with last"),
        ("{last: 5, zone: UTC}", "", "", "window.zone: does not go together with last"),
        ("{last: 5, late: {new: 1m}}", "", "", "window.late: does not go together with sliding: a late record is in"),
        ("{last: 5}", "", ", count: 5", "count: does not go together with last: each record has the result"),
        ("{tumbling: 5m, last: 5}", "", "", "window.last: does not go together with tumbling"),
        ("{session: 5m, last: 5}", "", "", "window.last: does not go together with session"),
        ("{last: 0}", "", "", "window.last: must be at least 1"),
        ("{last: 5m}", "", "", "window.last: "),
        ("{last: 5}", "", ", max_items: 5", "window.last: is not below max_items, 5: no window would have so many"),
        ("{sliding: 5m}", "", ", count: 5", "count: does not go together with sliding: each record has the result"),
        ("{sliding: 5m}", "", ", until: total > 1", "until: does not go together with sliding: each record has"),
        (
            "{sliding: 5m}",
            "",
            ", on_full: fire-oldest",
            "on_full: does not go together with sliding: each result is of",
        ),
        (
            "{tumbling: 5m, grace: 1m, at_most: 5m}",
            "",
            "",
            "window.at_most: is below the size and grace of the window, 6 min",
        ),
        ("{tumbling: 5m, idle: never, at_most: never}", "", "", "window.at_most: is never, and so is idle"),
        ("{tumbling: 5m, offset: 5m}", "", "", "window.offset: is not below the size of the window"),
        ("{tumbling: 5m, idle: ever}", "", "", "window.idle: is not a duration"),
        ("{tumbling: 5m}", "", ", timeout: {after: 1m}", f"timeout: {PAIR}"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, more: str, aggregate: str, problem: str) -> None:
    [line] = lines(loaded(tmp_path, windowed(text, more, aggregate)).problems, tmp_path)
    assert f"agents.a.aggregate.{problem}" in line


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("scope: shared", "scope: does not go together"),
        ("let: {at: amount}", "aggregate.window.time: names a computed field"),
    ],
)
def test_what_windows_cannot_do_yet_is_refused(tmp_path: Path, more: str, problem: str) -> None:
    complaints = lines(loaded(tmp_path, windowed("{tumbling: 5m, time: at}", more)).problems, tmp_path)
    assert any(f"agents.a.{problem}" in line for line in complaints), complaints


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ("{tumbling: 5m}", ""),
        ("{session: 5m}", ""),
        ("{hopping: 10m, every: 5m}", ""),
        ("{sliding: 5m}", "sliding: no result waits, so no window finishes"),
        ("{last: 5}", "last: no result waits, so no window finishes"),
    ],
)
def test_windows_finish_beside_a_changed_rule(tmp_path: Path, window: str, why: str) -> None:
    complaints = lines(loaded(tmp_path, windowed(window, "on_change: finish")).problems, tmp_path)
    assert [line.partition("does not go together with ")[2].partition(";")[0] for line in complaints] == [why] * bool(
        why
    )


def test_a_result_at_each_record_is_not_early(tmp_path: Path) -> None:
    [line] = lines(loaded(tmp_path, windowed("{sliding: 5m}", "emit: {every: 10s}")).problems, tmp_path)
    assert "agents.a.emit: does not go together with sliding: no result is early" in line


def test_a_computed_field_cannot_have_the_name_of_the_window(tmp_path: Path) -> None:
    text = windowed("{tumbling: 5m}").replace("total:", "window:")
    [line] = lines(loaded(tmp_path, text).problems, tmp_path)
    assert f"agents.a.aggregate.compute.window: {PAIR}" in line


def test_limits_that_are_never_are_warned_of(tmp_path: Path) -> None:
    for name in ("idle", "at_most"):
        file = loaded(tmp_path, windowed(f"{{tumbling: 5m, {name}: never}}"))
        assert f"agents.a.aggregate.window.{name}: is never" in "\n".join(lines(file.warnings, tmp_path))
    assert "window" not in "\n".join(lines(loaded(tmp_path, windowed("{tumbling: 5m}")).warnings, tmp_path))


def test_many_hopping_windows_of_one_record_are_warned_about(tmp_path: Path) -> None:
    [problem] = lines(loaded(tmp_path, windowed("{hopping: 1d, every: 1s}")).warnings, tmp_path)
    assert "window.every: makes 86,400 windows of each record" in problem
    assert loaded(tmp_path, windowed("{hopping: 1h, every: 5m}")).warnings == ()


def test_a_file_in_words(tmp_path: Path) -> None:
    sentences = words.meaning(an_agent(tmp_path, "{tumbling: 5m, time: placed_at, grace: 30s, at_most: 10m}"))
    assert sentences[1:5] == [
        "groups by windows of 5 min of placed_at",
        "closes a window when a record of its partition is 30 s past its end",
        "closes it by the worker's clock 1 min after the partition fell silent and the window with its grace ended, or "
        "at the latest 10 min after the group's first record",
        "a record of a window that is closed goes to shop.dead with the reason late",
    ]


def test_windows_of_a_calendar_in_words(tmp_path: Path) -> None:
    for text, spoken in (
        ("{tumbling: day, time: at}", "day in UTC"),
        ("{tumbling: week, zone: Asia/Kolkata, time: at}", "week in Asia/Kolkata from monday on"),
    ):
        assert words.meaning(an_agent(tmp_path, text))[1] == f"groups by windows of a {spoken}, by at"


def test_sessions_in_words(tmp_path: Path) -> None:
    sentences = words.meaning(an_agent(tmp_path, "{session: 30m, grace: 1m, time: at, idle: never}"))
    assert sentences[1:4] == [
        "groups by sessions of at: one ends 30 min after its last record",
        "closes a window when a record of its partition is more than 1 min past its end",
        "closes it by the worker's clock at the latest 91 min after the group's last record",
    ]


def test_sliding_windows_in_words(tmp_path: Path) -> None:
    assert words.meaning(an_agent(tmp_path, "{sliding: 10m, time: at, grace: 1m}"))[1:4] == [
        "gives a result at each record: of the records of its key in the last 10 min of at",
        "keeps each record until the highest time is 11 min past its own",
        "a record that is more than 1 min behind the highest time of its partition goes to shop.dead with the reason "
        "late",
    ]
    skips = words.meaning(an_agent(tmp_path, "{sliding: 10m, grace: 0s, late: skip}"))
    assert skips[3] == "a record that is behind the highest time of its partition is only counted"


def test_windows_of_the_last_records_in_words(tmp_path: Path) -> None:
    assert words.meaning(an_agent(tmp_path, "{last: 1000, time: at}"))[1:3] == [
        "gives a result at each record: of the last 1,000 records of its key by at",
        "keeps the last 1,000 records of each key, and those that are at most 1 min behind the highest time",
    ]
    assert words.meaning(an_agent(tmp_path, "{sliding: 10m, last: 5, time: at, grace: 1m}"))[1:3] == [
        "gives a result at each record: of the last 5 records of its key in the last 10 min of at",
        "keeps the last 5 records of each key, and those that are at most 1 min behind the highest time, for 11 min",
    ]


def test_sliding_windows_need_no_clock(tmp_path: Path) -> None:
    assert "window" not in "\n".join(lines(loaded(tmp_path, windowed("{sliding: 10m}")).warnings, tmp_path))
    rule = an_agent(tmp_path, "{sliding: 10m}").aggregation
    assert rule is not None
    assert rule.on_full == "dead-letter"


@pytest.mark.parametrize("window", ["{hopping: 5m, every: 1m}", "{sliding: 5m}", "{tumbling: 5m, late: {amend: 1h}}"])
@pytest.mark.parametrize(
    "more", ["handler: m:f", "history: past", "lookup: {item: {table: items, column: id, key: key, fields: [name]}}"]
)
def test_several_windows_of_a_record_go_together_with(tmp_path: Path, more: str, window: str) -> None:
    problems = lines(loaded(tmp_path, windowed(window, more)).problems, tmp_path)
    assert not [line for line in problems if PAIR in line or "amend" in line]


def test_windows_that_are_revised_are_not_ended_early(tmp_path: Path) -> None:
    rule = an_agent(tmp_path, "{tumbling: 5m, late: {amend: 1h}}").aggregation
    assert rule is not None
    assert rule.on_full == "dead-letter"
    stops = loaded(tmp_path, windowed("{tumbling: 5m, late: {amend: 1h}}", aggregate=", on_full: stop")).app
    assert stops is not None
    assert stops.agents[0].aggregation.on_full == "stop"  # type: ignore[union-attr]


def test_late_records_in_words(tmp_path: Path) -> None:
    sentences = words.meaning(an_agent(tmp_path, "{tumbling: 5m, late: {new: 10s}}"))
    assert "late records of a key and a window make a further result, 10 s after the first one of them" in sentences
    sentences = words.meaning(an_agent(tmp_path, "{tumbling: 5m, late: {amend: 1h}}"))
    assert (
        "keeps a window for 1 h of event time after its close: late records change it, and the whole result is sent "
        "again 1 min after the first one of them; what is later still goes to shop.dead with the reason late"
    ) in sentences


def test_many_windows_that_stay_are_warned_of(tmp_path: Path) -> None:
    file = loaded(tmp_path, windowed("{tumbling: 5m, late: {amend: 1d}}"))
    [line] = [line for line in lines(file.warnings, tmp_path) if "amend" in line]
    assert "keeps about 288 windows of each key, and `max_groups` counts them" in line
    assert not [
        line
        for line in lines(loaded(tmp_path, windowed("{tumbling: 5m, late: {amend: 50m}}")).warnings, tmp_path)
        if "amend" in line
    ]


@pytest.mark.parametrize(
    ("window", "more", "warns"),
    [
        ("{tumbling: 5m}", "", False),
        ("{tumbling: month}", "", False),
        ("{tumbling: 5m, late: skip}", "emit: {count: 10}", False),
        ("{tumbling: 5m}", "key: shop\n        repartition: by-shop", False),
        ("{tumbling: 5m, late: {amend: 10m}}", "", False),
        ("{tumbling: 5m, late: {new: 10s}}", "", False),
        ("{sliding: 5m}", "", True),
        ("{tumbling: 5m}", "emit: {every: 10s}", False),
        ("{hopping: 1h, every: 5m}", "", False),
        ("{hopping: 1h, every: 5m}", "emit: {every: 10s}", False),
        ("{session: 5m}", "", False),
        ("{session: 5m, late: {new: 10s}}", "", False),
        ("{session: 5m}", "emit: {every: 10s}", False),
    ],
)
def test_a_number_of_groups_in_memory_that_bounds_nothing_is_warned_of(
    window: str, more: str, warns: bool, tmp_path: Path
) -> None:
    file = loaded(tmp_path, windowed(window, more, ", hot_groups: 1000"))
    assert file.problems == ()
    complaints = [line for line in lines(file.warnings, tmp_path) if "hot_groups" in line]
    assert [("bounds nothing" in line) for line in complaints] == [True] * warns


@pytest.mark.parametrize(
    ("aggregate", "most"),
    [
        ("count: 2", None),
        ("count: 2, max_groups: 100", None),
        ("count: 2, hot_groups: 1000000", None),
        ("count: 2, hot_groups: 99, max_groups: 100", None),
        ("count: 2, hot_groups: 100, max_groups: 100", "100"),
        ("window: {tumbling: 5m}, hot_groups: 101, max_groups: 100", "100"),
        ("count: 2, hot_groups: 2000000", "1,000,000"),
    ],
)
def test_a_number_of_groups_in_memory_that_is_never_reached_is_warned_of(
    aggregate: str, most: str | None, tmp_path: Path
) -> None:
    file = loaded(tmp_path, agent(f"from: orders\naggregate: {{{aggregate}}}\nto: {{topic: totals}}"))
    assert file.problems == ()
    reasons = [line.partition(" agents.")[2] for line in lines(file.warnings, tmp_path) if "hot_groups" in line]
    assert reasons == [
        f"a.aggregate.hot_groups: bounds nothing: a partition has at most {number} groups by max_groups; write a lower "
        "number, or leave it out"
        for number in filter(None, [most])
    ]


def test_hopping_windows_in_words(tmp_path: Path) -> None:
    sentences = words.meaning(an_agent(tmp_path, "{hopping: 1h, every: 5m}"))
    assert sentences[1] == "groups by windows of 1 h of the record's timestamp, one every 5 min"


def test_expressions_of_results_know_the_window(tmp_path: Path) -> None:
    good = windowed("{tumbling: 5m}", 'having: window.closed_by == "event"')
    assert loaded(tmp_path, good).problems == ()
    [line] = lines(loaded(tmp_path, good.replace("window.closed_by", "window.closed")).problems, tmp_path)
    assert "closed" in line


@pytest.mark.parametrize(
    ("changed", "policies"),
    [
        ("{tumbling: 5m, time: at, grace: 10s}", ("finish", "convert", "flush", "drop")),
        ("{tumbling: 5m, time: at, late: skip}", ("finish", "convert", "flush", "drop")),
        ("{tumbling: 5m, time: at, late: {new: 10s}}", ("finish", "convert", "flush", "drop")),
        ("{tumbling: 5m, time: at, late: {amend: 1h}}", ("finish", "convert", "flush", "drop")),
        ("{tumbling: 1m, time: at}", ("flush", "drop")),
        ("{tumbling: 5m, time: {field: at, unit: ms}}", ("flush", "drop")),
        ("{tumbling: 5m, time: other}", ("flush", "drop")),
        ("{session: 5m, time: at}", ("flush", "drop")),
        ("{sliding: 5m, time: at}", ("flush", "drop")),
        ("{last: 5, time: at}", ("flush", "drop")),
        ("{tumbling: day, time: at}", ("flush", "drop")),
    ],
)
def test_what_a_change_means_for_open_windows(tmp_path: Path, changed: str, policies: tuple[str, ...]) -> None:
    old, new = (document(an_agent(tmp_path, text)) for text in ("{tumbling: 5m, time: at}", changed))
    assert policies_of(changes(old, new)) == policies


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ("{tumbling: week, zone: Europe/Rome}", "aggregate.window.zone"),
        ("{tumbling: week, zone: Europe/Vienna, week_starts: sunday}", "aggregate.window.week_starts"),
        ("{tumbling: month, zone: Europe/Vienna}", "aggregate.window.tumbling"),
    ],
)
def test_another_calendar_is_another_window(tmp_path: Path, changed: str, path: str) -> None:
    old, new = (an_agent(tmp_path, text) for text in ("{tumbling: week, zone: Europe/Vienna}", changed))
    differences = changes(document(old), document(new))
    assert path in [difference.path for difference in differences]
    assert policies_of(differences) == ("flush", "drop")
    assert fingerprint(old) != fingerprint(new)


@pytest.mark.parametrize("changed", ["{last: 6}", "{sliding: 1m, last: 5}", "{sliding: 1m}"])
def test_another_number_of_records_is_another_window(tmp_path: Path, changed: str) -> None:
    old, new = (an_agent(tmp_path, text) for text in ("{last: 5}", changed))
    assert policies_of(changes(document(old), document(new))) == ("flush", "drop")
    assert fingerprint(old) != fingerprint(new)
    for one, other in ((old, new), (new, old)):
        rule = earlier_agent(other, fingerprint(one)).aggregation
        assert rule is not None
        assert fingerprint(replace(other, aggregation=rule)) == fingerprint(one)


def test_groups_of_an_earlier_calendar_are_restored_under_it(tmp_path: Path) -> None:
    old = an_agent(tmp_path, "{tumbling: week, zone: Europe/Vienna}")
    for text in ("{tumbling: 1d}", "{session: 1h}", "{tumbling: year, zone: Asia/Kolkata}"):
        new = an_agent(tmp_path, text)
        for one, other in ((old, new), (new, old)):
            rule = earlier_agent(other, fingerprint(one)).aggregation
            assert rule is not None
            assert fingerprint(replace(other, aggregation=rule)) == fingerprint(one)


@pytest.mark.parametrize(
    ("window", "policies"),
    [
        ("{tumbling: 5m}", ("finish", "convert", "flush", "drop")),
        ("{tumbling: day}", ("finish", "convert", "flush", "drop")),
        ("{session: 5m}", ("finish", "convert", "flush", "drop")),
        ("{hopping: 10m, every: 5m}", ("finish", "convert", "flush", "drop")),
        ("{sliding: 5m}", ("convert", "flush", "drop")),
        ("{last: 5}", ("convert", "flush", "drop")),
    ],
)
def test_windows_finish_where_results_wait(tmp_path: Path, window: str, policies: tuple[str, ...]) -> None:
    old = document(an_agent(tmp_path, window))
    new = document(an_agent(tmp_path, window, "where: amount > 1"))
    assert policies_of(changes(old, new)) == policies
    plain = document(replace(an_agent(tmp_path, window), aggregation=None))
    assert "finish" not in policies_of(changes(plain, old))


def test_every_key_is_known_to_the_hints() -> None:
    assert "max_ahead" in loading._keys()["agents.*.aggregate.window"]


def test_with_repartition_the_first_half_reads_the_times_and_the_second_knows_its_origins(tmp_path: Path) -> None:
    file = loaded(tmp_path, windowed("{tumbling: 5m, time: at}", "key: shop\n        repartition: by-shop"))
    assert file.app is not None, file.problems
    first, second = file.app.agents
    assert second.aggregation is not None
    assert first.times == Window(300.0, time="at", at_most=3900.0)
    assert second.aggregation.window == replace(first.times, origins=("a.repartition/orders",))
    assert "closes a window when records of all input partitions are at or past its end" in words.meaning(second)
    values.check(file.app)
