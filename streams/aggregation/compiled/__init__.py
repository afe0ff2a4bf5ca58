"""Compiles a rule to Python code. It gives the same results as accept.py, faster."""
