"""Floating point numbers as integers that add up exactly, in any order, and back."""
