"""Open groups: listed, fired and dropped."""
