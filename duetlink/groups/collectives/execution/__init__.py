"""Run one collective operation after another, each by its schedule.

- operation: one call of a collective (`all_reduce`, `broadcast`, …), with the form of its value.
- sequence: the number of the operation in this epoch, from 0, the same at all members.
- part: one slice of a large array. Each part runs through the whole schedule; a few run at a time.
- block: one section of a part. A schedule names only blocks: "send block 2 to rank 1".
- piece: the items of one block of one part, sent as one frame.
- frame: a head (`frame.py`: the kind of message and its numbers) and a body (the bytes of a piece).
- digest: 8 bytes of a hash of the call, in each frame, by which members see that their calls differ.
- message: a value that one member sends to one other by tag, at the same time as the operations.

Example: three members sum a float32 array of 1,000,000 items (4 MB) around a ring. A ring of three has 3
blocks, and a part has at most 3 × 512 KiB, so there are 3 parts of at most 393,216 items. In its first round
rank 0 sends block 2 of part 0, 131,072 items, as one frame with sequence 0, part 0 and the digest of
`all_reduce(float32[1000000], sum, ring)`, and then adds block 1, which rank 2 has sent, to its own.

Theory. One task for each other member reads its frames and stores them until the operation asks for them, so
a member's sends never depend on the receiver's own sends. `schedule_run.py` and `shared.py` say what is sent
and received when.

Members may by mistake call different operations. Every piece carries the number of the operation in this
epoch and a digest of the call; the first piece to each member also carries the call's text. A mismatch shows
itself as a piece with another digest under the number of the running operation, as a piece that is left over
when an operation ends, or as a piece of an operation that has ended. Where two members wait for each other no
piece arrives at all: so a member that has waited for a second sends its call to all. A member that finds a
mismatch, or that gives up, sends an Abort to all. The first Abort ends the operation everywhere. After that
the engine is broken: which members had finished is a question that only a new epoch can settle.
"""
