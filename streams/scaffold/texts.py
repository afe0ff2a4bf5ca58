"""The texts of a new app. Names between @ are replaced."""

FILE = """\
# sluicegate check @NAME@.yaml: describes this file and lists its problems
# sluicegate test @NAME@.yaml: plays the tests at its end, without a broker and without a store
# sluicegate docs KEY: explains a key, for example: sluicegate docs aggregate.timeout

app: @NAME@
kafka:
  bootstrap.servers: ${KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}

# State, offsets and outputs are committed together in this store.@NEEDS@
store: ${STORE_URL:-@URL@}

# Records that cannot be used end here. Their headers say why.
dead_letters: @NAME@.dead

agents:
  baskets:
    from: @NAME@.orders
    where: amount > 0                       # other records are left out
    aggregate:                              # a group for each key of the records, here the customer
      count: 3                              # complete with the third order ...
      timeout: {after: 30s, since: first}   # ... or 30 seconds after the first one
      compute:
        orders: count
        spent: {sum: amount}
        dearest: {max: amount}
    handler: @MODULE@_handlers:bill   # called for each complete group, after a crash again
    to: {topic: @NAME@.bills}         # the topic of what the handler sends

tests:
  three orders make a bill:
    - send: {topic: @NAME@.orders, key: ann, value: {amount: 20}}
    - send: {topic: @NAME@.orders, key: ann, value: {amount: 0}}     # left out
    - send: {topic: @NAME@.orders, key: ann, value: {amount: 5}}
    - send: {topic: @NAME@.orders, key: ann, value: {amount: 15}}
    - expect: {topic: @NAME@.bills, key: ann, value: {customer: ann, orders: 3, total: 40, why: count}}
  a single order is billed after 30 seconds:
    - send: {topic: @NAME@.orders, key: ben, value: {amount: 7}}
    - advance: 29s
    - expect_nothing: @NAME@.bills
    - advance: 1s
    - expect: {topic: @NAME@.bills, key: ben, value: {customer: ben, orders: 1, total: 7, why: timeout}}
  an order without an amount is a dead letter:
    - send: {topic: @NAME@.orders, key: ann, value: {note: hello}}
    - expect: {topic: @NAME@.dead, reason: expression-failed}
"""

HANDLERS = '''\
"""The handler of @NAME@.yaml. What it sends is committed together with the group. After a crash it may run again."""


def bill(batch, send):
    """`batch.value` is the result of the group, `batch.reason` says why it is complete."""
    spent = batch.value["spent"]
    send({"customer": batch.key, "orders": batch.value["orders"], "total": spent, "why": batch.reason})
'''

TESTS = '''\
"""Tests of @NAME@.yaml with pytest. `sluicegate test @NAME@.yaml` plays the tests in the file."""

from pathlib import Path

FILE = Path(__file__).with_name("@NAME@.yaml")


def order(driver, customer, amount):
    driver.send("@NAME@.orders", {"amount": amount}, key=customer)


def test_each_customer_has_a_bill(sluicegate_driver):
    driver = sluicegate_driver(FILE)
    for amount in (20, 5, 15):
        order(driver, "ann", amount)
        order(driver, "ben", amount * 2)
    bills = {each.key: each.value["total"] for each in driver.read("@NAME@.bills")}
    assert bills == {"ann": 40, "ben": 80}


def test_a_process_that_dies_loses_nothing_and_repeats_nothing(sluicegate_driver):
    driver = sluicegate_driver(FILE)
    order(driver, "ann", 20)
    driver.crash()
    order(driver, "ann", 5)
    driver.advance("30s")
    (bill,) = driver.read("@NAME@.bills")
    assert bill.value["total"] == 25
'''
