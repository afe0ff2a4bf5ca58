"""Two agents in a chain: whatever the first one repeats, the second counts once; nothing that is new is taken for a
repeat."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.chaos import cells
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict
from tests.servers import Server, Valkey
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
OwnServer = Callable[..., Server]


def resent(scene: Scene, without: str = "") -> Verdict:
    """The first agent dies with results delivered and not recorded, and sends them again."""
    scene.run("further", agent="totals", without=without)
    scene.feed.start()
    faulty = scene.run("faulty", "acked-not-recorded=kill@60")
    faulty.wait_hit()
    scene.flowing()
    return scene.verdict()


@pytest.mark.parametrize("store", cells.stores())
def test_an_agent_counts_results_once_that_were_sent_twice(scene: MakeScene, store: str) -> None:
    app = scene(store)
    verdict = resent(app)
    assert verdict.clean, verdict
    assert verdict.copies, "nothing was sent twice: this proves nothing"
    assert app.downstream().clean, app.downstream()


def test_the_judge_finds_results_counted_twice_without_receiving(scene: MakeScene) -> None:
    app = scene("sqlite")
    resent(app, without="receive")
    assert app.downstream().duplicate, app.downstream()


def grown(scene: Scene, without: str = "") -> Verdict:
    """The output topics get more partitions between a result's first and second sending; dead letters without a key
    among them."""
    scene.run("further", agent="totals")
    scene.feed.send(3000)
    faulty = scene.run("faulty", "acked-not-recorded=kill@150", without)
    faulty.wait_hit()
    admin = AdminClient({"bootstrap.servers": scene.bootstrap, "log_level": 0})
    for future in admin.create_partitions(
        [NewPartitions(f"{scene.name}.{topic}", 8) for topic in ("out", "dead")]
    ).values():
        future.result(30)
    scene.tap.look_again()
    faulty.wait("partition.claimed", 2 * scene.partitions)
    scene.feed.send(300)
    return scene.verdict(settle=20.0 if without else 90.0)


def test_what_is_sent_again_goes_where_it_went_before_although_the_topics_grew(scene: MakeScene) -> None:
    app = scene("redis", kafka={"topic.metadata.refresh.interval.ms": 1000})
    verdict = grown(app)
    assert verdict.clean, verdict
    assert verdict.copies, "nothing was sent twice: this proves nothing"
    assert app.downstream().clean, app.downstream()


def test_the_judge_finds_repeats_in_other_partitions_when_rows_do_not_keep_theirs(scene: MakeScene) -> None:
    verdict = grown(scene("sqlite", kafka={"topic.metadata.refresh.interval.ms": 1000}), without="row-partition")
    assert verdict.duplicate, verdict


def rewind(app: Scene, server: Server, saved: Path, without: str = "") -> Verdict:
    """The append-only file goes back to before groups timed out, whose results the next agent has counted already."""
    app.run("further", agent="totals", store=f"sqlite:///{app.folder}/further.db")
    first = app.run("first", without=without)
    app.feed.send(400)
    app.flowing(3)
    shutil.copytree(server.place.data, saved)
    app.feed.send(400)
    wait_until(lambda: (app.draw(), app.progress.complete(0, further=True))[1], 40, "results further down", pause=0)
    server.kill9()
    shutil.rmtree(server.place.data)
    shutil.copytree(saved, server.place.data)
    server.restart()
    app.feed.send(400)
    wait_until(lambda: {row["error"] for row in first.partitions()} == {"store-rewound"}, 40, "the halt", pause=0.1)
    assert first.get("/readyz")[0] == 503
    first.kill9()
    app.run("accepted", without=",".join(filter(None, ["claim-checks", without])))
    return app.verdict(settle=30.0, repeats=True)


def test_a_store_that_went_back_is_loud_and_nothing_new_is_dropped_further_down(
    scene: MakeScene, own_server: OwnServer, tmp_path: Path
) -> None:
    """Whoever accepts the rewind (here by taking the check out) gets repeats, and loses nothing."""
    server = own_server(Valkey)
    app = scene(server.url)
    verdict = rewind(app, server, tmp_path / "saved")
    assert not verdict.lost, verdict
    assert not app.downstream().lost, app.downstream()


def test_the_judge_finds_what_is_dropped_when_numbers_carry_no_lineage(
    scene: MakeScene, own_server: OwnServer, tmp_path: Path
) -> None:
    server = own_server(Valkey)
    app = scene(server.url)
    rewind(app, server, tmp_path / "saved", without="lineage")
    assert app.downstream().lost, app.downstream()
