"""Chooses the algorithm of an operation, and the order of the members, by predicted time.

- algorithm: a way to do one kind of operation, such as "ring", "tree" or "halving" for an all-reduce.
- order: the ranks by position. Position p of the algorithm is taken by rank `order[p]`.
- figures: latency in seconds and rate in bytes/s of the link from one member to another.
- costs: the figures of all links, gathered from all members, so that all predict the same times.
- hosts: the members that share memory, by host. Two levels are one algorithm within them, and one between.
- candidate: one algorithm in one order with its predicted seconds. The fastest candidate is chosen.

Example: three members have unmeasured links, so each counts as 0.5 ms and 100 MB/s. For an all-reduce of
1 MB, `str(Choice(Costs.unknown(3)).explain("all_reduce", 1_000_000))` is a table of naive, butterfly,
tree, halving and ring with their milliseconds; ">" marks the fastest.
"""
