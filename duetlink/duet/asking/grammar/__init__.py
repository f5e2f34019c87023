"""Texts and expressions of other libraries, read by parsers of ours into operations of the lists."""
