"""State in MongoDB 4.4 or later, a replica set or a sharded cluster: one transaction per commit."""
