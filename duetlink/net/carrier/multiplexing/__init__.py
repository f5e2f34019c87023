"""Several TCP connections over one ordered stream of bytes."""
