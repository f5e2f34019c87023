"""Differentially private statistics: what may be computed, what it costs, and how the noise is added.

The guarantee is pure epsilon-differential privacy. Two data sets are neighbours when one has a row that the
other lacks. The guarantee covers values that leave as a private statistic, and no other way of leaving.

- Statistic: the scientist's question, such as a mean with bounds and an epsilon, all public constants.
- Kind: the public type of a column: `bool`, `int`, `narrow` (integers of less than 64 bits), `float`, `text`.
- Row-stable: said of steps by which each row of a column comes from exactly one row of one asset.
- Route: the row-stable steps that lead from an asset to a column.
- Mechanism: the noise for one kind of statistic. A `ReleasePlan` is a mechanism with noise and cost chosen.
- Budget: the total epsilon that the owner allows for an asset. A charge spends part of it.
- Ledger: the file on the owner's disk that records budgets and charges, one `Posting` a line.
- Claim: the (epsilon, delta) that an approved function promises. A meter counts what its training costs.

Example. The owner shares `people`, a pandas frame with a text column `name` and an int64 column `age`, and
gives it a budget of epsilon 1. The scientist asks for `Statistic("mean", 0.5, bounds=(0, 120))` of

    people[people["age"] > 17]["age"]

1. `row_stable` follows the five recorded steps: open the asset, take `age`, compare with 17, filter the
   frame, take `age`. Each keeps rows apart, so it returns a `Route` with one filter. With
   `people["age"].mean()` in place of 17 it returns a `Refusal`: one person changes that mean, and so which
   other rows stay.
2. `Ledger.charge("people", 0.5, "mean, epsilon 0.5, bounds 0 to 120")` is on the disk before anything is
   computed. A second charge of 0.6 would raise BudgetExceeded.
3. `plan(statistic)` chooses the noise without the data: epsilon 0.25 for the sum, 0.25 for the count.
4. `ReleasePlan.release(column)` clamps each age to 0 to 120, computes the noisy mean, and returns it with the
   error that it stays within in 95 % of all releases.
"""
