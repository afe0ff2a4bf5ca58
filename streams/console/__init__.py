"""The console: one page of the HTTP port that shows the output of the commands and makes some of their changes.

The page requests JSON, which is made in the supervisor's process. Values that are read from the store are cached, so
reading takes at most SHARE of the time (`kept`). Changes use the code of the commands (`changes`).
"""
