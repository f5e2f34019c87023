"""One member's life in a group: it joins, runs operations from epoch to epoch, survives losses, and leaves.

**Founder**: the member that launched the group; it has seat 0.
**Host**: the member that lets newcomers in: the founder at first, later the lowest seat of the epoch.
**Newcomer**: a member that has a seat, but is in no epoch yet.
**Join point**: a place in everybody's program, between two operations, at which newcomers enter the next
epoch: `group.admit()`, or the beginning of `group.average()`.
**Open epoch**: the epoch that this member is in, with its streams and its `Collectives`.
**Attempt**: one try to run an operation in one epoch. A loss may make another one necessary.
**Loss**: the end of a member that did not announce that it leaves. It raises PeerLost once at each other one.
**Status message**: at most 256 bytes on a topic that a member sends beside operations. The latest one on each
topic is kept at the receiver.

Example: members 0, 1 and 2 call `group.all_reduce(x)` with `on_loss="continue"`, and the process of 1 dies.

    async with life.running.attempts() as collectives:   # begins in epoch 1
        await collectives.all_reduce(x, options)         # waits for member 1
    # the link to 1 goes silent; after `patience_s`, the state machine says Revoke(epoch 1, seat 1):
    #   `OpenEpoch.fail(PeerLost("rank 1 (beta) is lost"))` ends the wait with that error
    # `Attempts.__aexit__` feeds Ended to the state machine, so that this member can promise,
    #   waits for epoch 2 (members 0 and 2), and swallows the error: nobody had finished the operation
    # the caller's `while True` loop enters the block again, and the sum of 0 and 2 is made in epoch 2
"""
