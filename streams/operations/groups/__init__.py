"""Open groups: list, fire and drop them."""
