"""Dead letters and dead rows: listed, compared with what they are about, and retried."""
