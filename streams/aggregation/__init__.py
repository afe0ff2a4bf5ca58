"""How records become groups, and groups results. Pure: no store, no clock, no Kafka."""
