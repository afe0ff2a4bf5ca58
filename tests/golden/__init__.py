"""State that an earlier build wrote, which later builds must take over.

`recorded/` has, for each feature, the claims and changelogs after half of a script, and what the whole script gave.
`python -m tests.golden` records features that are new. A recording stays as it is, since stores in use hold its bytes.
"""
