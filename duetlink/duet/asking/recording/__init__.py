"""Records the operations on pointers as a program of steps.

Nouns:

- step: one recorded operation, formatted as JSON: `[id, operation, [arguments]]`, in which `[3]` stands for
  the result with the id 3. Id 0 means that the operation returns nothing.
- program: all steps of one duet (`program.Program`). The steps that make one result are cut out of it when
  that result is requested.
- mock: the harmless stand-in on which the operation runs here, at once.
- hidden: a bit mask of the sizes of a result that depend on the data (`compute/operations/sizes/mask.py`).
  The other sizes are read from the mock (`sizes.py`).
- placed value: a value of this side that a step sends to the owner as an argument.
- recipe: the call that makes an equal of an object which holds only parameters, such as an estimator, so that
  the object itself need not travel (`recipe.py`).
- allow-list: the operations of one library that may be done with private data.

Example. The scientist runs `scans = duet.store["scans"]` and `mean = (scans * 2).mean()`. NumPy computes both
results on the mock of `scans`, and the program now holds

    [1, "asset", ["scans", 1]]
    [2, "operator.mul", [[1], 2]]
    [3, ".mean", [[2]]]

`mean.mock` is the number that NumPy computed. `mean.get(reason=…)` sends steps 1 to 3 to the owner, who runs
them on the real scans. When the pointer to `scans * 2` is garbage-collected, the id 2 is appended: the
program no longer needs to keep that result.
"""
