"""Chance that nobody can foretell: random words, and which rows are drawn by them."""
