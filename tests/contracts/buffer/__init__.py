"""One contract suite over every backend, one test per number of tests/contracts/behaviours.txt."""
