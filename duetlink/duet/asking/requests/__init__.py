"""Requests to the peer, from being sent to their answer."""
