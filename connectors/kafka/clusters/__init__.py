"""Several clusters: which one is asked about a topic, and by which name."""
