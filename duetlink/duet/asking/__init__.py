"""Whoever asks: pointers, what they record, and requests on their way to the peer."""
