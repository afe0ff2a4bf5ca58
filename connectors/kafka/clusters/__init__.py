"""Several clusters: routes questions and rows to the cluster of a topic, and translates topic names."""
