"""Opens the file of a command, and the systems that the file names."""
