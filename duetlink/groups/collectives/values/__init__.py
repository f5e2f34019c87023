"""Values of any shape as flat arrays and back, and the operations on flat arrays."""
