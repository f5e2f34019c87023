"""Convert floating point numbers to integers that can be added exactly, in any order, and back."""
