"""One contract suite over every backend, one test per number of the design's list."""
