"""Collective operations among members of one host, through shared memory: no socket carries an array.

- own memory: a sealed memfd that one member creates and writes, and all others map read-only.
- half: each memory has two halves, used in turn, so that a member can write the next chunk early.
- head: the first section of a half. It says what was called, and how far its owner has come.
- data: the second section of a half, of 4 MiB.
- chunk: the part of an array that is in one half. An array of 10 MiB takes three chunks.
- arrive, finish: the two counters in the head. "Arrived at chunk 5": the data of chunk 5 can be read.
  "Finished chunk 5": the owner's share of the sum can be read.

Example: two members sum 1 MiB. Each copies its array into its own memory and arrives. Once both have arrived,
rank 0 adds the first halves of both arrays and rank 1 the second halves, each into its own memory, and each
finishes. Once both have finished, each copies the two halves of the result from the two memories.
"""
