"""Good records and hostile ones side by side, on a real broker: what an attacker with write access reaches."""
