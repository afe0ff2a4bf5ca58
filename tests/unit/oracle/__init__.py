"""An oracle of all clauses together: random files and records, played on the engine and by plain Python.

`cases.py` makes a file and its records from a seed. `reading.py`, `groups.py`, `windows.py`, `correlations.py` and
`results.py` say what must come out; they are written from the pages and use no code of the product. `playing.py` asks
the product. `python -m tests.unit.oracle --seeds 10000` plays new seeds; `make test` plays a few hundred fixed ones.
"""
