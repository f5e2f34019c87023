"""The answering side: requests that the peer sends, the policies that answer them, and the programs and
functions that run here for them.

| noun | meaning |
|---|---|
| question | one `Ask` message of the peer, known by 16 random bytes; while it waits, an *asker* |
| request | one or more questions for the same thing; a person sees it as `duet.requests[7]` |
| case | the state of one request in the state machine: its phase and its askers (`machine.Case`) |
| event, action | input and output of the machine: `Withdrawn` happened; `Charge` the policy's quota |
| job | a program or function that has to run here before its result can leave (`Job`) |
| grant | an approval that is kept: it answers the same peer when it asks for the same thing again |
| charge | what a run or a release takes from a policy's quota; undone if nothing has left |
| release | an approved object on its way to the peer: first the line in the audit log, then the offer |

An example. The peer asks for `ages.mean()`, and a policy approves means, three times at most:

    inbox.py       receives Ask; job_intake.py reads the program and makes a ProgramJob
    decision.py    the policy matches as far as is known; type and size of the result are not
    machine.py     RequestArrived(Yes) -> pending: charge and start the run, record the question
    jobs.py        runs the program in a room of its own; the result becomes the content of request 7
    machine.py     FunctionMade -> Decide: the policies look at the result and approve it
                   Answered(Yes) -> granting: undo the run's charge, charge the release, keep it on disk
    releases.py    makes the offer, writes the audit lines, and only then sends the answer to the peer
"""
