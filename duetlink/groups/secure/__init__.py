"""Secure sums: the members of a group learn the sum of their values, and nothing else of each other's values.

**Residue**: a value encoded as an unsigned integer modulo 2^32 or 2^64; sums of residues wrap around.
**Range**: the declared limit and the step by which floats become residues (`ranges.py`).
**Pair mask**: a random number for each item, which one member of a pair adds and the other one subtracts.
**Self-mask**: a random number for each item, made from a *seed* that a member reveals at the end.
**Share**: a part of a member's seed. All other members together can compute the seed from their shares.
**Owner**, **deputy**: the member that adds up one block of the array, and the one that can stand in for it.
**Commitment**: a digest that a member sends before the data, so that it cannot change them afterwards.
**Round**: one attempt at the sum among the members of one epoch (`masked_round.py`).

Example: three members add 5, 7 and 1, in residues modulo 2^64; p, q, r are pair masks and a, b, c self-masks.

    member 0 sends   5 + p + q + a      to the owner of the block
    member 1 sends   7 - p + r + b
    member 2 sends   1 - q - r + c      the owner adds up: 13 + a + b + c; the pair masks cancel
    all announce that they have received everything, and then reveal the seeds of a, b and c
    the owner subtracts a, b and c, and sends 13 to all

A single value stays hidden: its pair masks are never revealed. If member 2 is lost after the announcement,
the others compute its seed from their shares, and the sum still contains its 1. If it is lost before that,
the round is discarded, and with `on_loss="continue"` a new one begins; here members 0 and 1 get GroupError,
since a secure sum needs three members.
"""
