"""Changed files: their effect, and the rules that run."""
