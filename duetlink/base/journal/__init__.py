"""One hash-chained file: lines that prove each other, appended one after the other and never changed.

Each line is canonical JSON with its number, the SHA-256 of itself (`hash`) and that of the line before it
(`previous`). A small head file beside the journal says where it ends. So a line that was changed, taken out
or moved is found, and so is an end that was cut off. A rewrite of everything from one line to the end, head
file included, is not found: note the last hash elsewhere, and compare.

The audit log and the privacy ledger are journals. They differ in what they do about a damaged end: the log
notes it and goes on (`Journal.append_mending`), the ledger stops until its owner repairs it (`Journal.walk`,
`Journal.append`).
"""
