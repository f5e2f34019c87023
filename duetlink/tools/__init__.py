"""The command `duetlink` (`cli.py`), the network doctor (`doctor/`), and the demo notebooks (`demo/`)."""
