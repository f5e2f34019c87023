"""The allow lists: the operations that a peer may use, their effects, and the arguments that are refused.

    list        a file `lists/LIBRARY.toml` with the allowed functions, methods, attributes and constants
    effect      the effect of an operation on its arguments, such as `elementwise` or `in_place`
    members     the allowed methods and attributes of one class
    guard       a check of arguments, for operations that are harmless only with some of them
    rule        one entry of `lists/guards.toml`: the values that a parameter may or may not have
    setting     a state of the process that changes results, such as `torch.autocast`
    extension   another package that has a list for its own library

A peer names the operation `.to_csv` of a frame. `Allowed.method(DataFrame, "to_csv")` is None, since no list
has the name, and the room refuses the step. `.agg` is in a list, and `check(".agg", (frame, "to_pickle"),
{})` raises OperationRefused, since pandas would call the method of that name.
"""
