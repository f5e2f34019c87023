"""The commit-msg hook, `commit_message.py FILE`: a subject of at most 72 characters, then a blank line."""

from __future__ import annotations

import sys
from pathlib import Path

MOST = 72  # characters of a subject: what `git log` shows in a terminal of 80 columns


def fault(message: str) -> str | None:
    """What is wrong with a commit message, or None. Lines that begin with # are git's."""
    subject, *rest = [line for line in message.splitlines() if not line.startswith("#")] or [""]
    if not subject.strip():
        return "a commit needs a subject: one line that says what changes"
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):  # git's own words
        return None
    if len(subject) > MOST:
        return f"the subject has {len(subject)} characters; at most {MOST}: {subject}"
    if rest and rest[0].strip():
        return "a blank line stands between the subject and the body"
    return None


if __name__ == "__main__":
    sys.exit(fault(Path(sys.argv[1]).read_text(encoding="utf-8")))
