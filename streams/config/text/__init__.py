"""The text of the file: YAML with positions, variables, secrets, and problems with their lines."""
