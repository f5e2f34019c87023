"""The engines that execute preparations: one file for each, with the interface of `base.py`."""
