"""Mocks at the scientist: the objects on which operations run, their display, and checks of their answers.

Nouns:

- mock: a made-up object with the schema of an asset. The owner's side makes it (`compute/mocks/`).
- unaltered mock: its encoded bytes as they arrived. The session works with a decoded copy (`unaltered.py`).
- revision: one state of an asset; each has its own mock (`revisions.py`).
- mate: an object of the mock's schema with other values. Three mates of each asset show whether a size or an
  error depends on the data (`agreement.py`).
- rehearsal: a run of a requested program on the unaltered mocks, whose result has to be the session's mock of
  that result (`rehearsal.py`).
- echo: a mock, or a copy of one, that the user passes as an argument (`echoes.py`).
- room: the separate process in which mates and rehearsals run.

Example. The mock of `people` has 100 rows, and `old = people[people.age > 60]` has 12 rows on it. The rules
for sizes say that this length depends on the data, so `len(old)` raises PrivateLength. If the rules missed
that, the mates would show it: there the result has, say, 3, 40 and 12 rows. `old.get(reason=…)` sends the
program to the owner. If the notebook has written into the mock of `people`, a rehearsal of the program gives
other rows than `old.mock`, and `get` raises ProgramDiffers.
"""
