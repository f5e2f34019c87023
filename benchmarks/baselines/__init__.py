"""What benchmarks compare with: the ways of others, written from their papers, and ours with less.

Only here and in `part_*.py` may a benchmark use what is inside of duetlink.
"""
