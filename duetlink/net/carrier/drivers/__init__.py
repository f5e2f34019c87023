"""Drivers: each reaches the peer's driver by one means, and yields an ordered stream of bytes."""
