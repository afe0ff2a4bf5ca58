"""What operators see and change: open groups, parked and dead rows, dead letters, gaps, and the rebuild of a lost
store.

It imports ownership, the wiring of engine, and the rooms below them. Only the command line imports it.
"""
