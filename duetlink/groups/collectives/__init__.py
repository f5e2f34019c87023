"""Collective operations: sums and copies among all members of a group, by schedules over a transport.

- member, rank, size: one notebook of a group; its number from 0; the number of members.
- epoch: a period in which the members stay the same. After a loss the next epoch begins, with new ranks.
- collective operation: a call that all members make in the same order, such as all_reduce or broadcast.
- call: one user call. It may be several operations of the engine.
- root: the member that a broadcast starts from, or that a reduce or gather ends at.
- in turn: calls of one member run one after the other, in the order in which they were made.
- codec: either a lossless codec for pieces on the wire (zstd), or a coded sum of `sums/` (union, auto).

`collectives.py` has the operations on values, which a group calls. `values/` turns values into flat arrays,
`planning/` chooses an algorithm, `schedules/` holds the algorithms, `execution/` runs a schedule by messages
and `same_host/` through shared memory, `sums/` holds the coded sums.

Example: at three members, of ranks 0, 1 and 2, `await collectives.all_reduce(np.array([rank, 1.0]))` returns
[3, 3] at each. In the first call of an epoch, the members exchange figures of their links. Then each takes
its value apart into one flat float64 array, all choose the same algorithm by the figures, and the engine
runs its schedule. If one member calls `broadcast` instead, all three raise OperationMismatch.
"""
