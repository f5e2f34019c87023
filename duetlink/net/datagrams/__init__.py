"""Messages of one packet to the peer: authenticated and encrypted, neither ordered nor reliable."""
