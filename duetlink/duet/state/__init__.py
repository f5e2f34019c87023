"""The state that `launch(resume=…)` keeps on the owner's disk, so that another kernel can continue the duet.

| noun | meaning |
|---|---|
| state | what is kept under one name: descriptions, policies with their usage, requests, a person's grants |
| record | one JSON text in the state's SQLite file, under a kind and a key, with a digest |
| work | the bytes from which the job of one pending request can be run; a file of its own |
| lock | lets one kernel at a time use a state |
| contents | all records of a state, read and checked to fit together |
| ledger | what private statistics have cost; kept in the same directory |

The content of an asset is never kept. An example, of one name, `launch(resume="study")`:

    study/state.sqlite     ('asset', '["ages"]')   -> {"info": {"name": "ages", "revision": 2, ...}, ...}
                           ('grant', '["ann","ages",2]') -> 7
                           ('request', '[7]')      -> {"number": 7, "state": "approved", ...}
    study/work/8           the program of request 8, which waits for an answer
    study/privacy.jsonl    the ledger
    study/lock             held by the kernel that runs; study/in-use-by names its process

`State` is called at each change. A caller for which a change must not be lost awaits `written`, which returns
when it is on the disk.
"""
