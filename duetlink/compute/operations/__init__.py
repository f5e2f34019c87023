"""Operations on private data: which are allowed, how they are recorded, and how a program is cut out. Pure.

    operation   a function, method or attribute of a library, named `numpy.mean`, `.mean` (a method), `@T` (an
                attribute) or `@=grad` (an attribute that is set)
    effect      the effect of an operation on objects: elementwise, aggregate, other, in place or backward
    step        one recorded call of an operation, as JSON; its result has an id
    trace       all recorded steps of a session, and which of their results may share memory
    slice       the steps of a trace that one result may depend on
    program     a slice as a value: canonical steps, the values they use, and a digest
    lineage     a program as its owner sees it: assets, operations, Python code and the digest
    prefix      the first steps of a program, if their last result can be frozen and reused

The packages: `allow_lists` (allowed operations and arguments), `steps` (trace and slice), `printer` (steps as
Python code), `sizes` (private lengths), `lists` (the allow lists as files). An example: the scientist's cell

    adults = people[people.age >= 18]
    wrong = adults.age.sum()
    result = adults.age.mean()

records these steps, which are `[id, operation, arguments]`; an argument `[n]` is the result with id n:

    [1, "asset", ["people", 1]]                  [4, "operator.getitem", [[1], [3]]]    adults
    [2, "operator.getitem", [[1], "age"]]        [5, "operator.getitem", [[4], "age"]]
    [3, "operator.ge", [[2], 18]]                [6, ".sum", [[5]]]                     wrong
                                                 [7, ".mean", [[5]]]                    result

The slice of result 7 is the steps 1 to 5 and 7. The owner reads them as one line of Python,
`people[people["age"] >= 18]["age"].mean()`, and step 6 is neither sent, shown nor run.
"""
