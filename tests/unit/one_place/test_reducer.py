"""A reducer that one file of the product gets works in `check`, `test --crash`, Avro results, windows that are merged,
`plan`, the schema of the file, `replay --rebuild` and `--shadow`."""

import json

import pytest

from tests.unit.one_place.copy import Copy

FILE = "streams/reducers.py"
ENTRY = """
def _multiplied(place: Place, get: Getter) -> Add:
    slot, lenient = place.at, place.lenient

    def add(state: StateSlots, record: Any) -> None:
        value = get(record)
        if not lenient or type(value) in (int, float):
            state[slot] *= value

    return add


def _merged_product(place: Place) -> Merge:
    slot = place.at

    def merge(state: StateSlots, other: StateSlots) -> None:
        state[slot] *= other[slot]

    return merge


_PRODUCT = Accumulator(lambda place: [1], _multiplied, _merged_product)
ENTRIES += (
    ReducerKind("product", "The product of the field.", "the product of {}", "number", _stat(0), takes="number",
                slots=_PRODUCT, until="groups", total=True, others=("times",)),
)


def _flipped(place: Place, get: Getter) -> Add:
    slot = place.at

    def flip(state: StateSlots, record: Any) -> None:
        state[slot] ^= get(record)

    return flip


_BITS = Accumulator(lambda place: [0], _flipped, None, take=_flipped)
ENTRIES += (
    ReducerKind("parity", "The bits of the field.", "the bits of {}", "integer", _stat(0), takes="number",
                slots=_BITS, of_rows=OfRows(_stat(0), _BITS)),
)
"""
APP = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
http: false
dead_letters: dead
agents:
  orders:
    from: in
    key: customer
    aggregate:
      count: 3
      timeout: 1m
      compute: {all: {product: n}, total: {sum: n}, biggest: {max: n}}
    to: {topic: out, format: avro}
  hops:
    from: times
    aggregate:
      window: {hopping: 2m, every: 1m, idle: never}
      compute: {all: {product: n}}
    to: {topic: by_hop}
  visits:
    from: clicks
    aggregate:
      window: {session: 1m, grace: 2m, idle: never}
      compute: {all: {product: n}}
    to: {topic: by_visit}
  rows:
    from: {topic: changes, envelope: debezium}
    key: customer
    repartition: by_customer
    aggregate: {compute: {bits: {parity: n}}}
    emit: {on: change}
    to: {topic: by_row}
tests:
  a row is taken back:
    - send: {topic: changes, key: a, value: {op: c, after: {customer: x, n: 6}}}
    - send: {topic: changes, key: b, value: {op: c, after: {customer: x, n: 3}}}
    - expect: {topic: by_row, key: x, value: {bits: 6}}
    - expect: {topic: by_row, key: x, value: {bits: 5}}
    - send: {topic: changes, key: a, value: {op: u, after: {customer: x, n: 8}}}
    - expect: {topic: by_row, key: x, value: {bits: 11}}
    - send: {topic: changes, key: a, value: {op: d}}
    - expect: {topic: by_row, key: x, value: {bits: 3}}
  orders are multiplied:
    - send: {topic: in, value: {customer: 1, n: 2}, partition: 0}
    - send: {topic: in, value: {customer: 1, n: 3}, partition: 0}
    - send: {topic: in, value: {customer: 1, n: 7}, partition: 0}
    - expect: {topic: out, value: {all: 42, total: 12, biggest: 7}}
  a window is made of parts:
    - send: {topic: times, key: a, value: {n: 2}, at: +10s, partition: 0}
    - send: {topic: times, key: a, value: {n: 5}, at: +70s, partition: 0}
    - send: {topic: times, key: b, value: {n: 1}, at: +300s, partition: 0}
    - expect: {topic: by_hop, key: a, value: {all: 2}}
    - expect: {topic: by_hop, key: a, value: {all: 10}}
    - expect: {topic: by_hop, key: a, value: {all: 5}}
  two sessions become one:
    - send: {topic: clicks, key: a, value: {n: 2}, at: +0s, partition: 0}
    - send: {topic: clicks, key: a, value: {n: 5}, at: +110s, partition: 0}
    - send: {topic: clicks, key: a, value: {n: 3}, at: +55s, partition: 0}
    - send: {topic: clicks, key: b, value: {n: 1}, at: +300s, partition: 0}
    - expect: {topic: by_visit, key: a, value: {all: 30}}
"""
REPLAYS = """
import json

from sluicegate.streams.agent import Reducer
from tests.unit.engine.driver import Log, ManualClock, memory
from tests.unit.engine.rebuilding import amounts, rebuild, state, worked
from tests.unit.engine.scene import a_log, an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures

agent = an_agent(count=3, since_first=None, compute=(Reducer("total", "product", "amount"),))
log, clock = a_log("in", "out", "dead"), ManualClock()
store, lost = memory(clock), memory(clock)
amounts(log, clock, "aabaab", first=2)
worked(agent, store, log, clock)
rebuild(agent, lost, log, clock)
assert state(agent, lost) == state(agent, store)
open_groups = sorted((key.decode(), made[3]["total"]) for key, made in state(agent, lost)[1].items())

scene = Scene(agent)
scene.play(40)
shadowed = scene.shadow()
assert all_identical(shadowed)
print(json.dumps([open_groups, [*figures(shadowed)]]))
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("product"))
    copy.put(FILE, "REDUCERS = {", ENTRY)
    copy.write("shop.yaml", APP)
    return copy


def test_check_says_what_it_computes(product: Copy) -> None:
    assert "all (the product of n)" in product.command("check", "shop.yaml")


def test_its_tests_pass_with_a_death_at_every_place(product: Copy) -> None:
    assert "4 tests" in product.command("test", "shop.yaml", "--crash")


def test_an_expression_of_a_text_as_its_number_is_refused(product: Copy) -> None:
    product.write(
        "typed.yaml",
        APP.replace("    key: customer\n", "    key: customer\n    fields: {customer: integer, n: text}\n"),
    )
    assert "needs a number, but n is text" in product.command("check", "typed.yaml", code=2)


def test_a_reducer_that_cannot_take_a_row_back_is_refused(product: Copy) -> None:
    product.write("rows.yaml", APP.replace("{parity: n}", "{product: n}"))
    assert "is computed by product, which cannot take a row back" in product.command("check", "rows.yaml", code=2)


def test_the_words_of_other_products_lead_to_it(product: Copy) -> None:
    product.write("other.yaml", APP.replace("{all: {product: n}, total", "{all: {times: n}, total"))
    assert "did you mean product?" in product.command("check", "other.yaml", code=2)


def test_the_schema_of_the_file_has_it(product: Copy) -> None:
    assert '"The product of the field."' in product.command("schema")


def test_a_changed_reducer_is_a_change_of_the_rule(product: Copy) -> None:
    product.write("after.yaml", APP.replace("all: {product: n}, total", "all: {product: m}, total"))
    planned = product.command("plan", "after.yaml", "--against", "shop.yaml", "--no-replay", code=4)
    assert "aggregate.compute.all" in planned


def test_its_groups_are_built_again_and_its_results_are_found_in_the_past(product: Copy) -> None:
    assert json.loads(product.program(REPLAYS).splitlines()[-1]) == [[["a", 6], ["b", 28]], ["identical"]]
