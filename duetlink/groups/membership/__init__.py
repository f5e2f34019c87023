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

The state machine (`machine.py`):

Theory. An epoch is a number and its members. The members of one epoch agree on the next one with
single-decree Paxos (Lamport, "Paxos Made Simple", 2001), one instance for each epoch: a proposer asks for
promises, then for acceptance, and commits what a majority **of the members of this epoch** has accepted. Any
two majorities share a member, so there is at most one next epoch, and the two halves of a split group never
both go on. Two rules are added. A member promises only while it runs no operation, and begins none
afterwards. A proposer waits for the promise of every member that is alive. So an epoch changes only between
operations. There is no fixed leader: the proposer is the lowest seat among the members that are alive and
stay. If the proposer dies, the next one takes its place, and learns from the promises what may have been
accepted already.

| event                      | what this member does                                                         |
|----------------------------|-------------------------------------------------------------------------------|
| Begun, Ended               | notes that an operation runs, or has ended; sends a promise that was owed     |
| Gone, receives Lost        | if new: informs all, revokes the epoch (which ends operations), *considers*   |
| Missed, Found              | informs all                                                                   |
| Waited                     | gives the seat up as if it were Gone, once no member hears it                 |
| receives Missing           | if new: relays it, and checks again whether a seat is to be given up          |
| Leave, receives Leaving    | informs all, revokes the epoch, *considers*                                   |
| receives relayed Leaving   | if new: informs all; the end of that member's links is then not a loss        |
| AbortEpoch,                | an operation failed and left messages in flight: informs all, revokes the     |
| receives EpochAborted      | epoch, *considers* a new epoch of the same members                            |
| Admit                      | *considers* with these newcomers; all members wait for it between operations  |
| receives Prepare           | answers Refused if the ballot is old, else Promise as soon as nothing runs;   |
|                            | if it lists lost members, revokes the epoch                                   |
| receives Promise           | from all that are alive: sends Accept, with the proposal that was accepted    |
|                            | earlier if there is one, else with its own                                    |
| receives Refused           | begins a later ballot, if it is still the proposer                            |
| receives Accept            | answers Refused if the ballot is old, else Accepted                           |
| receives Accepted          | from a majority: *enters*                                                     |
| receives Commit            | of the next epoch: *enters*                                                   |

*Consider*: stop if no majority is alive and in reach, or if all members leave. If this member is the
proposer, and the members should change or a ballot was begun, begin a later ballot.
*Enter*: revoke the last epoch if a member is missing from the new one without this member knowing of it. Send
Commit to all before any message of the new epoch. Stop if no longer a member. Revoke the new epoch at once if
one of its members is leaving or lost already. Then *consider*.
"""
