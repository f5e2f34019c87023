"""The panel of duetlink in the notebook."""
