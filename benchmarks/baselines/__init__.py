"""What others do, written from their papers, so that benchmarks can compare with it."""
