"""Engines that exist, over shared ports: their programs, our links. Run by `python -m tests.engines`."""
