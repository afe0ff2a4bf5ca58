"""State in Redis 6.2 or later, or Valkey: one script per step, one hash tag per partition."""
