"""The owner's worker: a process of its own, locked down, in which private data is worked on."""
