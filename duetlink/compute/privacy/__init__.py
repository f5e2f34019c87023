"""Differential privacy as a way out: statistics with noise, their cost, and the data they may be made from.

A `Statistic` says what is asked. `row_stable` says whether the steps that led to its data leave each row by
itself, so that its noise covers what one person can change. The `Ledger` is charged, then `release` makes
the value. Pure epsilon-differential privacy: two data sets are neighbours when one has a row that the other
lacks. It is promised for what leaves as a private statistic, and for nothing that leaves in another way.
"""
