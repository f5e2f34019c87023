"""Training with local steps between rounds of averaging (federated averaging), one noun to a file.

- shared numbers: the model that all members had after the last round, as one flat float32 array.
- update: this member's model now, minus its model when it last gave an update.
- round: the members bring their updates together; all then move the shared numbers by the weighted mean.
- weight: the factor of a member's update in the mean, such as its number of rows.
- outer step: the optimizer step with the mean update, with a rate and a momentum of its own.
- error feedback: what the coding of one update left out is added to the next one.

Example: two members share the number 10. After 100 local steps they are at 12 and 16, so their updates are 2
and 6. With weights 3 and 1 the mean is (3 × 2 + 1 × 6) / 4 = 3. With an outer rate of 1 the shared number
becomes 13 at both. A member that has meanwhile gone 0.5 further continues at 13.5.
"""
