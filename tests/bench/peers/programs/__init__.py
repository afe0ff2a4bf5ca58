"""J1 as each peer's documentation would have it written; `said` tells the bench what it must know."""
