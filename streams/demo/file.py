"""The declarative file of the demo, for `sluicegate run`."""

INPUT, OUTPUT, DEAD = "flights", "delays", "flights.dead"
APP, AGENT = "flights", "delays"
GROUP = f"{APP}.{AGENT}"
OUTPUT_PARTITIONS = 4

TEXT = """\
app: flights
kafka:
  bootstrap.servers: {bootstrap}    # the embedded broker, in the demo's own process
  session.timeout.ms: 1500               # short, for --kill: another worker takes over as soon as the session ends
  heartbeat.interval.ms: 150
store: sqlite:///state.db
dead_letters: flights.dead               # flights without a departure delay end here
http: {{port: 0{console}}}

agents:
  delays:
    from: flights
    key: message                         # the carrier
    aggregate:
      count: 100                         # a result for each 100 flights of a carrier ...
      timeout: {{after: 3s, since: first}} # ... or for as many as came within 3 seconds
      compute:
        flights: count
        total: {{sum: dep_delay}}
        mean: {{mean: dep_delay}}
        worst: {{max: dep_delay}}
        airports: {{distinct: dest}}
    to: {{topic: delays, format: json}}
"""


def text(bootstrap: str, console: bool = False) -> str:
    return TEXT.format(bootstrap=bootstrap, console=", console: true" if console else "")
