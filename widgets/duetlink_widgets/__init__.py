"""The live panel of a duet or group in a notebook: `duet.panel()`, or `duet` as the last line of a cell.

The package uses duetlink, which finds the panel by its entry point and never imports this package.

The nouns:

    panel      the widget, `panel.Panel`
    page       one browser view of the panel; a notebook may be open in several
    trait      a part of the panel's state that is synchronised to all pages and saved with the notebook
    message    everything else that is sent between the kernel and a page
    tick       the message with rates and progress, four times a second while a page shows the panel
    feed       the thread that follows a duet or group and writes to the panel (`feed.py`, `group_feed.py`)
    command    a click, sent to the kernel as a message and answered by an `Ack`
    foreign    text of a peer, which the page shows only after escaping it

Example: when a request arrives, the feed writes the trait `requests` and sends the message `asked`. A click
on "Approve" sends the message

    {"kind": "command", "command_id": "c1", "name": "approve", "args": {"number": 0, "revision": 0}}

The kernel calls `duet.requests[0].approve()` and answers with an `Ack` of `command_id` "c1".
"""
