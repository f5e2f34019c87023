"""Recorded steps: their encoding, the trace that stores them, and the backward slice that makes one result.

    step        one call of an operation: `[id, operation, arguments]`, see `program.py`
    shape       a step without its ids; steps that differ only in ids share one (a loop has few shapes)
    node        a result in a trace, numbered from 0; an id that is defined twice is one node
    kind        the effect of a step on objects that other results may share: FRESH, SHARES, CHANGES_FIRST, …
    sharing     a relation between nodes: they may share memory (a view, or an object within another)
    partition   disjoint classes of nodes that only merge, with the time of each merge (`partition.py`)
    slice       the steps that a target may depend on, found from the last step to the first (`slice.py`)
    mode        a property of a step beside its arguments: no gradients, random numbers, settings (`body.py`)

An example, with the steps

    0  a = asset        2  v[0] = 1       4  b = a.sum()
    1  v = a[:5]        3  w = a * 2      5  v[1] = 7

Step 1 may return a view, so a and v are in one class from time 1 on. The slice of b is the steps 0, 1, 2 and
4: step 2 writes into the class of a before step 4 reads it. Step 3 makes something fresh that b does not use,
and step 5 writes too late.
"""
