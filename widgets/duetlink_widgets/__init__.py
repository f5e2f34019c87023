"""duetlink in the notebook, live: `duet.panel()`, or `duet` as the last line of a cell.

Uses duetlink, which finds the panel by its entry point and never imports this package.
"""
