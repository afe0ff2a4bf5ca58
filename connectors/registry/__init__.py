"""The schema registry, asked by confluent-kafka's own client."""
