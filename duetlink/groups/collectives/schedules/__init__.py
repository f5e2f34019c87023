"""Which member sends which block to whom in which round: one file for each algorithm. Pure."""
