"""Serves the state of agents to other programs: the state API of the HTTP port, and its client."""
