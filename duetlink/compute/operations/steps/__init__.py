"""Recorded steps: their encoding, their trace, and the backward slice that makes one result."""
