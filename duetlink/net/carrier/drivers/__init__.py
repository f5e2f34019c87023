"""Drivers: each reaches the peer's driver by one method, and yields an ordered stream of bytes."""
