"""State in SQL databases: SQLite through the standard library."""
