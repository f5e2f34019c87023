"""Algorithms of collective operations as schedules: one file for each algorithm. Pure: no I/O, no clock.

- schedule: all that one member does in an operation, as rounds. Every member has its own schedule.
- round: blocks to send, then blocks to receive. All members have equally many rounds; some may be empty.
- block: one section of the array. An algorithm cuts it into 1 block, or into as many as there are members.
- block use: what the receiver does with a block: REPLACE its own, or combine, LEFT or RIGHT of its own.
- root: the member that a broadcast starts from, or that a reduce ends at.
- relative rank: (rank - root) modulo the number of members; the root is 0.

Example: `ring.reduce_scatter(0, 3)`, rank 0 of three members. Round 1 sends block 2 to rank 1, and receives
block 1 from rank 2 and adds it. Round 2 sends that block 1 to rank 1, and receives block 0 from rank 2 and
adds it. Block 0 now holds the sum of all three members, at its owner, rank 0.
"""
