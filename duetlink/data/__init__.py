"""Objects as bytes, as fewer bytes, and which of them the peer has already. Pure: no I/O, no clock."""
