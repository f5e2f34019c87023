"""The links of one member to the others: made at a meeting, and the streams of an epoch over them."""
