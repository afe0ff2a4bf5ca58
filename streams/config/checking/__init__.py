"""Finds the problems of a file, or of values built in Python."""
