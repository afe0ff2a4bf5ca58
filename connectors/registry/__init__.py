"""The client of the schema registry, on top of confluent-kafka's own client."""
