"""The calling conventions of commands: parameters, output, and exit codes."""
