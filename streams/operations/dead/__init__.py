"""Dead letters and dead rows: list them, compare them with their records, and retry them."""
