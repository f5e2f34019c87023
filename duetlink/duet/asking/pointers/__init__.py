"""Pointers: objects that stand for objects of the peer and record the operations on them.

Nouns:

- asset: an object that the peer shares. `pointer.Pointer` stands for one.
- result: the outcome of an operation on pointers. `remote.Result`, or `tensor.TensorPointer` for tensors of
  torch, stands for one.
- mock: the made-up stand-in that a pointer holds, and on which operations run here.
- remote session: the program, the mocks and the checks that all pointers of a duet share
  (`remote_session.py`).
- allow-list: the operations of one library that may be done with private data. A method in no list raises
  UnknownAttribute or OperationRefused.
- remote library: a module whose functions take pointers, `duet.remote(pandas)` (`library.py`).

Example. `people = duet.store["people"]` makes a Pointer; nothing is fetched. `people.age` fetches the mock of
`people`, takes its column `age`, records the step, and returns a Result that holds the mock column.
`people.age.mean() + 1` adds two steps. `print(…)` shows the mock. `if people.age.mean() > 60:` raises
PrivateValue, since the mock's truth value says nothing about the real data. `.get(reason=…)` on any of these
sends a request.
"""
