"""How fast the product's own `run` path is, next to a hand-written loop measured in the same run."""
