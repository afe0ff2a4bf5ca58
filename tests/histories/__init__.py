"""Histories of the whole product under faults, and a checker that knows nothing of the product."""
