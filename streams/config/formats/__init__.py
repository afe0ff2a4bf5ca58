"""Formats with schemas: the schemas of the file, and their problems."""
