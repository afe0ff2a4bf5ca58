"""Python code that is made for a rule: the same results as the interpreter has, faster."""
