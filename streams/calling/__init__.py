"""Calls that run outside of the loop: a pool of threads, calls to a store, and the back-off between attempts.

It imports no other room, only the files beside the rooms.
"""
