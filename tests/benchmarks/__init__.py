"""What the benchmarks promise without being run."""
