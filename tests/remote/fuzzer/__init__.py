"""Programs that are drawn, and run twice: on the data here, and on pointers to them. What differs fails.

Theory (differential testing, W. M. McKeeman 1998). A notebook on pointers promises one thing of every line:
the value that the same line makes of the data, or an error at that line. So a program needs no expected
values: it is its own oracle. Programs are source text, drawn statement by statement from templates
(`grammar/`), and each statement is tried on the data before it is kept, so that the kinds of all variables
are known and most lines mean something. `random.Random` draws, and not hypothesis: a program is a list of
statements, which is shrunk by leaving statements out, and a number names it in a report.

The mocks differ from the data wherever a wrong value could come from: in values, order, classes, groups, row
labels, missing items and words. A statement that is refused is left out on both sides, and the rest is tried.
At the end every variable is fetched and compared, those that hold random numbers by type and shape.

    python -m tests.remote.fuzzer NUMBER FIRST_SEED             real rooms
    python -m tests.remote.fuzzer NUMBER FIRST_SEED --here      the owner's interpreter, in this process
"""
