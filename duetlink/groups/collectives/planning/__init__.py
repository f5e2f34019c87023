"""Chooses the algorithm and the order of the members by the time that figures of the links predict."""
