"""A hash-chained file: lines that prove each other, appended one after the other and never changed.

Each line is canonical JSON with its number, the SHA-256 of itself (`hash`) and that of the line before it
(`previous`). A small head file beside the journal names the last line. So a line that was changed, removed or
moved is detected, and so is an end that was cut off. A rewrite of everything from one line to the end, head
file included, is not detected: to detect it, note the last hash elsewhere and compare.

Example: two lines, with shortened hashes and without other fields:

    {"hash":"5c1f…","kind":"opened","number":0,"previous":"0000…"}
    {"hash":"9e02…","kind":"closed","number":1,"previous":"5c1f…"}

The audit log and the privacy ledger are journals. They differ in how they treat a damaged end: the log
records it and continues (`Journal.append_mending`), the ledger stops until its owner repairs it
(`Journal.walk`, `Journal.append`).
"""
