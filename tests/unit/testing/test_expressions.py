"""The expressions of a file, in the file's own tests and under `--crash`."""

import re
import textwrap
from pathlib import Path

import pytest

from tests.unit.config.files import loaded
from tests.unit.testing.files import crashed, played

HEAD = """\
app: shop
kafka: {bootstrap.servers: localhost:9092}
store: memory://
dead_letters: shop.dead
agents:
"""
WHERE = """\
  paid:
    from: orders
    where: status == "paid" && country in ["DE", "FR"]
    key: customer
    aggregate: {count: 2, timeout: {after: 30s}, compute: {spent: {sum: amount}}}
    to: {topic: baskets}
"""
SHARED = WHERE.replace("    key:", "    scope: shared\n    key:")
PAID = """\
- send: {topic: orders, value: {status: paid, country: DE, customer: c1, amount: 6}}
- send: {topic: orders, value: {status: open}}
- send: {topic: orders, value: {status: paid, country: US, amount: none}}
- send: {topic: orders, value: {country: DE, customer: c1, amount: 7}}
- expect: {topic: shop.dead, reason: expression-failed, headers: {sluicegate-dead-clause: where}}
- send: {topic: orders, value: {status: paid, country: FR, customer: c1, amount: 8}}
- expect: {topic: baskets, key: c1, value: {count: 2, spent: 14}}
- send: {topic: orders, value: {status: paid, country: FR, customer: c1, amount: 9}}
- advance: 30s
- expect: {topic: baskets, key: c1, reason: timeout, value: {count: 1, spent: 9}}
"""

LET = """\
  regions:
    from: orders
    let: {total: "amount * default(qty, 1)", region: 'country + "/" + default(customer.tier, "none")'}
    where: total > 0
    key: region
    aggregate: {count: 2, timeout: {after: 30s}, compute: {spent: {sum: total}, dearest: {max: total}}}
    to: {topic: baskets}
"""
REKEYED = LET.replace("    key: region", "    key: region\n    repartition: by-region")
REGIONS = """\
- send: {topic: orders, key: o-1, value: {country: DE, amount: 600, qty: 2, customer: {tier: gold}}}
- send: {topic: orders, key: o-2, value: {country: DE, amount: 0}}
- send: {topic: orders, key: o-3, value: {country: DE, amount: "6"}}
- expect: {topic: shop.dead, key: o-3, reason: expression-failed, headers: {sluicegate-dead-clause: let.total}}
- send: {topic: orders, key: o-4, value: {amount: 1}}
- expect: {topic: shop.dead, key: o-4, reason: expression-failed, headers: {sluicegate-dead-clause: let.region}}
- send: {topic: orders, key: o-5, value: {country: DE, amount: 5, customer: {tier: gold}}}
- expect: {topic: baskets, key: DE/gold, value: {key: DE/gold, count: 2, spent: 1205, dearest: 1200}}
- send: {topic: orders, key: o-6, value: {country: FR, amount: 5, region: hidden}}
- advance: 30s
- expect: {topic: baskets, key: FR/none, value: {count: 1, spent: 5}}
"""
HAVING = """\
  baskets:
    from: orders
    aggregate: {count: 3, timeout: {after: 30s}, compute: {spent: {sum: amount}, mean: {mean: amount}, all: collect}}
    having: spent >= 10 && reason != "timeout"
    to: {topic: baskets}
"""
RESULTS = """\
- send: {topic: orders, key: a, value: {amount: 4}, times: 3}
- send: {topic: orders, key: b, value: {amount: 3}, times: 3}
- send: {topic: orders, key: c, value: {amount: 30}}
- expect: {topic: baskets, key: a, value: {spent: 12}}
- advance: 1m
- expect_nothing: baskets
"""
SELECT = """\
  baskets:
    from: orders
    aggregate: {count: 2, timeout: {after: 30s}, compute: {spent: {sum: amount}, all: collect}}
    to: {topic: baskets, select: {who: key, mean: double(spent) / count, late: reason == "timeout", all: all}}
"""
SELECTED = """\
- send: {topic: orders, key: a, value: {amount: 4}, times: 2}
- expect: {topic: baskets, key: a, value: {who: a, mean: 4, late: false, all: [{amount: 4}, {amount: 4}]}}
- send: {topic: orders, key: b, value: {amount: 3}}
- advance: 30s
- expect: {topic: baskets, key: b, value: {who: b, mean: 3, late: true, all: [{amount: 3}]}}
"""
ROUTES = """\
  tenants:
    from: orders
    aggregate: {count: 2, timeout: {after: 30s}, compute: {orders: count, spent: {sum: amount}, last: {last: note}}}
    to:
      - {topic: audit, continue: true, select: [key, spent]}
      - {topic: gold, where: spent >= 10}
      - {topic: late, where: 'reason == "timeout"', select: {tenant: key}}
      - {topic: noted, where: 'last.startsWith("x")'}
"""
ROUTED = """\
- send: {topic: orders, key: a, value: {amount: 5, note: x}, times: 2}
- expect: {topic: audit, key: a, value: {key: a, spent: 10}}
- expect: {topic: gold, key: a, value: {key: a, spent: 10, orders: 2}}
- send: {topic: orders, key: b, value: {amount: 1, note: x}}
- advance: 30s
- expect: {topic: audit, key: b, value: {key: b, spent: 1}}
- expect: {topic: late, key: b, value: {tenant: b}}
- send: {topic: orders, key: c, value: {amount: 1, note: y}, times: 2}
- expect: {topic: audit, key: c}
- expect_nothing: gold
- expect_nothing: late
"""
UNROUTED = """\
- send: {topic: orders, key: c, value: {amount: 1, note: y}, times: 2}
- expect: {topic: shop.dead, key: c, reason: unrouted, value: {key: c, count: 2, spent: 2, last: y}}
- send: {topic: orders, key: d, value: {amount: 1, note: 7}, times: 2}
- expect: {topic: shop.dead, key: d, reason: expression-failed, headers: {sluicegate-dead-clause: to.noted}}
- expect_nothing: audit
"""
PALLETS = """\
  pallets:
    from: parcels
    aggregate:
      until: group.weight >= 500
      timeout: {after: 10m, since: last}
      compute: {weight: {sum: kg}, parcels: count}
    to: {topic: pallets}
"""
WEIGHED = """\
- send: {topic: parcels, key: p, value: {kg: 461.5}}
- send: {topic: parcels, key: q, value: {kg: 500}}
- expect: {topic: pallets, key: q, reason: until, value: {weight: 500, parcels: 1}}
- expect_nothing: pallets
- send: {topic: parcels, key: p, value: {kg: 38.5}}
- expect: {topic: pallets, key: p, reason: until, value: {weight: 500, parcels: 2}}
- send: {topic: parcels, key: p, value: {kg: 1}}
- advance: 10m
- expect: {topic: pallets, key: p, reason: timeout, value: {weight: 1, parcels: 1}}
"""
LIMITED = PALLETS.replace(">= 500", ">= limit * double(message.headers.share)")
UNLIMITED = """\
- send: {topic: parcels, key: p, value: {kg: 60, limit: 100}, headers: {share: "1"}}
- send: {topic: parcels, key: p, value: {kg: 70}, headers: {share: "1"}}
- expect: {topic: shop.dead, key: p, reason: expression-failed, headers: {sluicegate-dead-clause: until}}
- send: {topic: parcels, key: p, value: {kg: 80, limit: 100}, headers: {share: none}}
- expect: {topic: shop.dead, key: p, reason: expression-failed, headers: {sluicegate-dead-clause: until}}
- send: {topic: parcels, key: p, value: {kg: 40, limit: 200}, headers: {share: "0.5"}}
- expect: {topic: pallets, key: p, reason: until, value: {weight: 100, parcels: 2}}
"""
REKEYED_PALLETS = PALLETS.replace("    aggregate", "    key: truck\n    repartition: by-truck\n    aggregate")
LEASE = "- advance: 11s\n"  # of a batch that a dead process has in hand
EXPECT = "- expect: {topic: baskets"
FILES = {
    "where": (WHERE, PAID),
    "let": (LET, REGIONS),
    "let that re-keys": (REKEYED, REGIONS),
    "having": (HAVING, RESULTS),
    "having of scope shared": (
        HAVING.replace("    having", "    scope: shared\n    having"),
        RESULTS.replace(EXPECT, LEASE + EXPECT),
    ),
    "select": (SELECT, SELECTED),
    "routes": (f"{ROUTES}      - drop\n", ROUTED),
    "routes of which none fits": (ROUTES.replace("continue: true", "where: spent > 2, continue: true"), UNROUTED),
    "until": (PALLETS, WEIGHED),
    "until that re-keys": (REKEYED_PALLETS, re.sub(r"key: (.), value: {kg", r"key: x, value: {truck: \1, kg", WEIGHED)),
    "until without an answer": (LIMITED, UNLIMITED),
    "where of scope shared": (SHARED, PAID.replace(EXPECT, LEASE + EXPECT)),
}


PAGE = (Path(__file__).parents[3] / "docs" / "clauses.md").read_text()


def test_the_file_of_the_page_does_what_its_tests_say(tmp_path: Path) -> None:
    shown, *_ = re.findall(r"```yaml\n(app: .*?)```", PAGE, re.S)
    head, _, steps = shown.partition("  paid orders of a region:\n")
    assert played(tmp_path, textwrap.dedent(steps), f"{head}  it:\n") is None


@pytest.mark.parametrize(
    "title",
    [
        "each payment goes to the first route that takes it",
        "a record goes on under its new key",
        "a record is written in another format and as an event",
    ],
)
def test_a_forwarder_of_the_page_does_what_its_tests_say(title: str, tmp_path: Path) -> None:
    [shown] = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if f"  {title}:\n" in text]
    head, _, steps = shown.partition(f"  {title}:\n")
    verdict = crashed(tmp_path, textwrap.dedent(steps), f"{head}  it:\n".replace("localhost:9092", '"${BROKER}"'))
    assert (verdict.failure, verdict.place) == (None, None)


def test_the_declared_fields_of_the_page_are_those_that_its_expressions_use(tmp_path: Path) -> None:
    _, shown, *_ = re.findall(r"```yaml\n(app: .*?)```", PAGE, re.S)
    file = loaded(tmp_path, shown)
    assert (file.problems, file.warnings) == ((), ())
    misspelt = loaded(tmp_path, shown.replace("where: status", "where: stats"))
    assert "no field stats in fields" in str(misspelt.problems)


@pytest.mark.parametrize("name", FILES)
def test_the_file_does_what_its_tests_say(name: str, tmp_path: Path) -> None:
    agents, steps = FILES[name]
    assert played(tmp_path, steps, f"{HEAD}{agents}tests:\n  it:\n") is None


@pytest.mark.parametrize("name", FILES)
def test_no_death_anywhere_changes_that(name: str, tmp_path: Path) -> None:
    agents, steps = FILES[name]
    verdict = crashed(tmp_path, steps, f"{HEAD}{agents}tests:\n  it:\n")
    assert (verdict.failure, verdict.place) == (None, None)
