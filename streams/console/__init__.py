"""The console: one page of the HTTP port that shows what the commands show, and makes some of their changes.

The page asks for JSON, which is made in the supervisor's process. What is read from the store is kept, so that reading
takes at most SHARE of the time (`kept`). Changes go through the code of the commands (`changes`).
"""
