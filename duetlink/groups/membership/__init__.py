"""Membership of a group: the roster of everybody who ever joined, and the epochs that members agree on.

Everything here is pure: functions from values to values, without sockets, clocks or randomness.

**Seat**: the number that a member gets when it joins, 0 for the founder. A seat is never given out twice.
**Entry**: the public key and the name of the member that has one seat.
**Roster**: all entries by seat. It grows; members that have gone stay in it.
**Epoch**: a number and the seats of the members that run operations together. It changes only between
operations, by agreement among the members of the last epoch.
**Rank**: a member's index in its epoch, 0 to size - 1. Ranks change from epoch to epoch, seats do not.
**Ballot**: one attempt to agree on the next epoch (Paxos): a round number and the seat of its proposer.
**Host**: the member that lets newcomers in: the founder, and later the lowest seat of the epoch.
**Event**, **action**: an input of the state machine (a message arrived, a link was lost), and an output (send
this message, begin that epoch).

Example: seats 0, 1 and 2 are in epoch 1, and the process of seat 1 dies while an operation runs.

1. Seat 0 sees that its link to seat 1 is gone: `step(state, Gone(1))` returns the new state and three
   actions. `SendToAll(Lost(1, 0, 1))` informs seat 2. `Revoke(epoch, 1, False)` ends the operation with
   PeerLost. Since seat 0 is the lowest seat alive, `SendToMember(2, Prepare(1, (1, 0), (1,)))` proposes the
   next epoch.
2. The operation has ended at seat 0: `step(state, Ended(0))` gives its own promise, which was owed.
3. Seat 2 receives `Lost` and `Prepare`, ends its operation as well, and answers `Promise`.
4. Seat 0 has the promises of all that are alive, and asks seat 2 to accept `Proposal((0, 2))`. Seat 2 answers
   `Accepted`. Two of three members are a majority.
5. Seat 0 sends `Commit`, and both members perform `Enter(Epoch(2, (0, 2)), even=True)`. Seat 2 now has
   rank 1.
"""
