"""The helper process of a rung: it reaches the peer's helper and carries Flight's connections to it."""
