"""What a kernel and a room say to each other."""
