"""Tests of an app without a broker and without waiting: the driver, the pytest plugin, and the `tests:` of a file."""
