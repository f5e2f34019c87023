"""The states of a request as a person sees them, and the names for who answered it."""

PENDING, APPROVED, DENIED, WITHDRAWN, EXPIRED = "pending", "approved", "denied", "withdrawn", "expired"
FAILED = "failed"  # only for a job: the run failed, and the peer was told
PERSON, BUDGET = "person", "budget"  # values of `by` other than `policy NAME`

NO_LOG = "the audit log cannot be written, and nothing leaves without it; ask again later"
