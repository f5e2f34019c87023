"""Unpredictable random numbers, and samples of rows that are drawn with them."""
