"""The loop thread with its synchronous facade, and meters. Knows nothing of links or values."""
