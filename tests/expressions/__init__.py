"""The evidence of `streams/expressions`: Google's cel-cpp judges the exact form, and the exact form the typed one."""
