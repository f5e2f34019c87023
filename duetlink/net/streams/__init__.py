"""Ordered, reliable messages to the peer by whatever path is up, any number of streams side by side."""
