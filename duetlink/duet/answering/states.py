"""The states of a request as a person sees them, and the names for who answered it."""

PENDING, APPROVED, DENIED, WITHDRAWN, EXPIRED = "pending", "approved", "denied", "withdrawn", "expired"
FAILED = "failed"  # only of a function: it has, and the peer was told
PERSON, BUDGET = "person", "budget"  # who answered, unless it was a policy

NO_LOG = "the audit log cannot be written, and nothing leaves without it; ask again later"
