"""Requests to the peer: one object for the user, one for the loop thread, one record.

Nouns:

- question: one request and its progress, owned by the loop thread (`asking.Question`).
- pending request: the user's handle on a question, which `request()` returns (`pending_request.py`).
- record: the line about a question that stays in `duet.asked` without its value (`own_requests.py`).
- job: a function with its arguments, to be run at the owner. A question is for an asset (by name and
  revision), for a result (by the program that makes it), or for a job.
- answer: approved (with an offer of the value), denied or failed (with words), or pending. After
  "pending" the final answer comes later as a message of its own.

Example. `pending = pointer.request("for figure 2")` makes a question with 16 random bytes as its id, and
sends the message `Ask`. Its state is `asking`. The owner's side replies "pending", and the state is `pending`
until the owner approves. It is `approved` while the value is fetched and decoded, then `complete`, and
`pending.result()` returns the value. `pending.withdraw()` at any time before sends `Withdraw`; the state is
then `withdrawn`.
"""
