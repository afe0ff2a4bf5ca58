"""What is wrong with a file or with values built in Python."""
