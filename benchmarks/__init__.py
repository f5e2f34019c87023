"""Benchmarks: each compares ways of doing the same work within one run. `python -m benchmarks --help`."""
