"""The declarative file of the demo, for `sluicegate run`."""

INPUT, DELAYS, CARRIERS, ALARMS, DEAD = "flights", "delays", "carriers", "alarms", "flights.dead"
APP = "flights"
AGENTS = (DELAYS, CARRIERS, ALARMS)
"""Each agent has the name of the topic that it writes."""
GROUP = f"{APP}.{DELAYS}"
OUTPUTS = dict.fromkeys((*AGENTS, DEAD), 4)
"""Topics and their partitions."""
LATE = 30  # minutes of a mean delay above which there is an alarm

TEXT = """\
app: flights
kafka:
  bootstrap.servers: {bootstrap}    # the embedded broker, in the demo's own process
  session.timeout.ms: 1500               # short, for --kill: the partitions of a killed worker wait for it
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

  carriers:
    from: delays                         # ten results of a carrier make one of its thousand flights
    key: message
    aggregate:
      count: 10
      timeout: {{after: 1s, since: first}}
      compute: {{flights: {{sum: flights}}, total: {{sum: total}}, worst: {{max: worst}}}}
    to: {{topic: carriers, format: json}}

  alarms:
    from: delays
    where: mean > {late}                     # without a group: each result that is late
    to: {{topic: alarms, format: json, select: {{mean: mean, partition: message.partition, offset: message.offset}}}}
"""


def text(bootstrap: str, console: bool = False) -> str:
    return TEXT.format(bootstrap=bootstrap, console=", console: true" if console else "", late=LATE)
