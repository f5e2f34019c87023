"""Records what is done to pointers as a program of steps."""
