"""The leased contracts in SQL: aggregator buffers, scheduled timeouts and the outbox."""
