"""Prints the steps of a slice as the Python that a person reads before approving it.

    item        an element of a block of code: a step, or a loop with all its rounds
    row         items in order, with the items that make their references; loops are searched in it
    round       one execution of a loop's body; only the first round is printed
    carried     a reference that means, in a later round, a result of the round before
    initial     the value that the first round has in place of a carried one
    collected   a result of each round that is used after the loop; it is printed as an item of a list
    waiting     a result that has no line of its own yet; its expression is printed where it is used
    words       comments behind a line, such as literals that differ in the other rounds

An example: a training loop of 200 rounds leaves 200 times the same steps, and is printed as

    all_loss = []
    for _ in range(200):
        loss = F.mse_loss(x @ weight, y)
        loss.backward()
        all_loss.append(loss)

`repetition.py` finds the loop, `uses.py` finds the results that need a name, `code.py` writes the lines.
Texts and numbers that the peer chose are escaped by `literal.py`.
"""
