"""The asking side of a duet: pointers, the program that they record, and requests on their way to the peer.

One operation passes through the folders in this order:

- `pointers`: `frame.age` or `a + b` on a pointer calls the recorder;
- `grammar`: texts and expressions of other libraries (`frame.query("age > 3")`, a Polars expression, a
  formula) are first parsed into operations;
- `recording`: the operation runs on mocks, and one step is recorded;
- `mocks`: holds those mocks, and checks on other data of the same kind what a mock may tell;
- `functions`: whole functions (`@duet.remote`) and objects that the scientist places at the owner;
- `requests`: sends the program of a result to the owner, waits for the answer, and fetches the value.

Nouns:

- asset: an object that its owner shares, in one revision.
- pointer: the scientist's stand-in for an asset or result; it holds a mock and an id, never the content.
- mock: a made-up object of the same schema, on which operations run here.
- mate: another object of the mock's schema with other values. What differs between mock and mates depends on
  the data and is not answered (`mocks/agreement.py`).
- step, program: one recorded operation; the steps that make one result.
- question: one request on its way (`requests/asking.py`).
"""
