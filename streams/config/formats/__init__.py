"""Formats with schemas: the schemas of the file, and what is wrong with them."""
