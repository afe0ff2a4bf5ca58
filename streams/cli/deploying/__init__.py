"""Changed files: what they would do, and which rules run."""
