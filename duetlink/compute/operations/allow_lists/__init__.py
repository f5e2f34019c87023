"""Which operations a peer may use, with which arguments, and what each does to its arguments."""
