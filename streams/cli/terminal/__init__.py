"""How a command is called, what it prints, and its exit code."""
