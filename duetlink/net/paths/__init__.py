"""Ways for bytes to reach the peer: one file per rung of the ladder, one contract for all."""
