"""The duet of two notebooks: what each side shares, what the other asks for, and who approves it.

| noun | meaning |
|---|---|
| duet | one pairing of two notebooks, until it is closed: `Duet` for the person, `Life` on the loop thread |
| asset | one revision of an object that a side shares; `objects/` |
| pointer | an asset or result of the other side, to work with; `asking/` |
| request | a question for an asset or result, with a reason; `answering/` |
| policy | a rule that answers requests; `answering/policies/` |
| store | the objects of both sides by name: `duet.store` |
| state | what survives a restart with `launch(resume=…)`; `state/` |

An example, with the modules in which it happens:

    owner      duet.share(ages, "ages", mock="auto")    duet.py -> objects/offering.py -> objects/catalogue.py
    scientist  duet.store["ages"].mean().get(reason="…")  store.py -> asking/pointers -> asking/requests
    owner      duet.requests[0].approve()               answering/requests.py -> answering/inbox.py
    scientist  get() returns the mean                   asking/requests; the bytes come by duetlink/net/link

A person's calls run on any thread; each submits a coroutine to the loop thread, where `Life` and everything
in the four packages live, and waits for it.
"""
