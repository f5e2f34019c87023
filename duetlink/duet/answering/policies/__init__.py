"""Policies: rules that answer the peer's requests. The first that matches answers; if none does, a person
answers.

| noun | meaning |
|---|---|
| policy | one rule: `approve`, `deny` or `ask`, the fields that a request must match, and its quotas |
| facts | what a policy may look at: name, type, size, tags, lineage, least group; and the peer's name |
| verdict | the reason why one policy does not match one request; empty: it matches |
| decision | the policy that answers, and the verdicts of all policies that were tried |
| usage | what a policy has approved so far; compared with its quotas |
| charge | one approval, added to the usage before anything leaves, and undone if nothing left |

An example, with two policies in this order:

    Policy("approve", name="means", operations="mean", min_group=20, count=2)
    Policy("deny", name="raw", assets="scans", reason="raw scans stay here")

    request                    decision          because
    ages.mean(), 100 rows      approve (means)   the usage of "means" is now 1
    the asset "scans"          deny (raw)        "means" needs a result of operations
    ages.mean(), a third time  wait              the usage of "means" is 2 of 2; "raw" is for "scans" only
"""
