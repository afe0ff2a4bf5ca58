"""What a person sees and changes: open groups, parked and dead rows, dead letters, gaps, and a lost store's rebuild.

It imports ownership, the wiring of engine, and the rooms below them. Only the command line imports it.
"""
