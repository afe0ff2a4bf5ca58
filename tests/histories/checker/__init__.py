"""A checker of histories in the manner of Elle (Kingsbury and Alvaro, VLDB 2020), and one of queues.

It imports the standard library only: no part of Sluicegate, and nothing of its other tests.
"""
