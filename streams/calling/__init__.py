"""Calls that run beside the loop: a pool of threads, calls to a store, and the wait before another attempt.

It imports no other room, only the files beside the rooms.
"""
