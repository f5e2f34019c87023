"""The part of groups that users call: opening or joining a group, its operations and its services.

**Group**: one notebook's membership in a group, with blocking methods (`duetlink.group()` returns it).
**Operation**: a call that all members make in the same order, each with its own value (`all_reduce`).
**Call**: one operation under way at this member: its name, the cell that called it, and its progress.
**Round**: one operation of `Rounds`, which goes on without members whose notebook gives nothing to it.
**Part**: the object that says what a round exchanges, such as the average of a model.
**Post**: datagrams to single members; they may get lost, and no member is waited for.
**Group port**: a TCP service of one member that other members can connect to.
**Records**: the entries of the audit log about a group.

Example: `mean = group.all_reduce(x, "mean")`, called in cell 3.

    Group.all_reduce               makes ReduceOptions("mean") and Call("cell 3:1"), and waits on the user's
                                   thread, with a progress bar after one second
    Operations.all_reduce          on the loop thread: checks `only=`, begins an attempt in the current epoch
    Operations.note                writes "all_reduce, 8,000 bytes, to 1 beta, 2 gamma" to the audit log
    Collectives.all_reduce         exchanges messages with ranks 1 and 2; x is an array of 1,000 float64
    Group.all_reduce               returns the mean, with the same bits at all three members
"""
