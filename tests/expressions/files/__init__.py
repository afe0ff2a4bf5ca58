"""The example files of the expressions, with tests of their own."""
