"""The first lines of a file whose workers are killed, on a real broker and any store. A test replaces NS, KAFKA and
STORE."""

HEAD = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000, heartbeat.interval.ms: 500}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
"""
