"""STUN and TURN: where a server is, what is said to it, and which servers one side lends to the other."""
