"""Privacy of sizes: which lengths of a result are the same for any data, so that its mock may show them.

    axis        a dimension of an array; a frame has two, rows and columns
    private     may depend on the data: the mock's length says nothing, and is not shown
    public      the same for any data that have the asset's schema: the mock's length is the true one
    mask        an int whose bits say which axes have a private length (`mask.py`)
    rule        computes the mask of a call's result (`arrays.py`, `frames.py`, `keys.py`)
    label       the name of a row in pandas; operations on two frames match rows by their labels
    counted     row labels are 0, 1, 2, … for any data, so that a label is as good as a position

`lists/sizes.toml` assigns a rule to each operation, and `lookup.py` applies it. An example, with an asset
`people` that has the columns "age" and "town":

    adults = people[people.age >= 18]    # rule `taken`: a boolean key makes the number of rows private
    ages = adults["age"]                 # rule `taken`: a series, whose number of rows stays private
    ages.mean()                          # rule `reduced`: one number, nothing is private
    adults.shape[1]                      # 2, since the columns are public
    len(adults)                          # PrivateValue: the mock's number would be a wrong one
"""
