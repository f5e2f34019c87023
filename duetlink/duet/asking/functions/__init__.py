"""Functions and objects that go to the owner: `@duet.remote`, `duet.remote(obj)`, private training.

Nouns:

- function: a Python function of the notebook whose source can be sent (`function.Function`).
- source: its text, with import lines for the libraries that it uses (`source.py`).
- local call: the function with arguments, already run on mocks (`function.LocalCall`).
- submission: such a call as it is sent: source, arguments in JSON, and inputs (`submission.py`).
- input: an argument that is an asset, a program that makes a result, or an encoded value.
- placed object: a value, model or estimator of this side that now lives at the owner (`place.py`).

Example.

    @duet.remote
    def top(frame, n):
        return frame.nlargest(n, "age")

    call = top(duet.store["people"], 3)     # runs on the mock of `people` at once; nothing is sent
    call.mock                               # the result on the mock
    people = call.get(reason="check ages")  # the owner reads the source and approves
"""
