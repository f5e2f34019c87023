"""The audit log: what was shared, asked, answered and let out, as lines that prove each other.

Each line is an entry in canonical JSON with the SHA-256 of itself and of the line before it. A small head
file beside the log says where it ends. So a line that was changed, taken out or moved is found, and so is an
end that was cut off. Not found is what somebody rewrites from one line to the end, head file included: note
the last hash elsewhere, and compare.
"""
