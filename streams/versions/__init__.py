"""The versions of each agent's rule in the store.

It imports contracts, rules and aggregation. The engine, operations and the command line import it.
"""
