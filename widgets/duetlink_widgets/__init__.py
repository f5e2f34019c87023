"""duetlink in the notebook, live. Uses duetlink; duetlink never uses this.

`LiveTable(duet)` as the last line of a cell shows the duet at a glance and keeps it up to date.
"""

from duetlink_widgets.live_table import LiveTable

__all__ = ["LiveTable"]
