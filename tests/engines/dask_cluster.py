"""Dask: scheduler and client at one side, a worker at the other. They dial each other: a port each way."""

from __future__ import annotations

import duetlink
from tests.engines.programs import Programs, wait_listening
from tests.free_port import free_port

CLIENT = """
import sys
from distributed import Client
with Client(f"tcp://{sys.argv[1]}", timeout=60) as client:
    client.wait_for_workers(1, timeout=60)
    (worker,) = client.scheduler_info()["workers"]
    print("WORKER", worker)
    print("SUM", client.submit(sum, client.map(lambda n: n * n, range(1000))).result(timeout=60))
    print("BYTES", len(client.submit(bytes, 20_000_000).result(timeout=60)))
"""

# On two machines the worker listens on 127.0.0.1 of its own. Here both sides are on one.
WORKER_HOST = "127.0.0.2"


def run(programs: Programs) -> str:
    scheduler, worker = free_port(), free_port()
    programs.start("dask", "scheduler", "--host", "127.0.0.1", "--port", str(scheduler), "--no-dashboard")
    wait_listening(scheduler)
    with duetlink.launch() as owner, duetlink.join(str(owner.code)) as scientist:
        scientist.share_port(scheduler, "scheduler")
        owner.share_port(worker, "worker", host=WORKER_HOST)
        to_scheduler = owner.open_port("scheduler")
        # under the number that the worker gives as its address
        to_worker = scientist.open_port("worker", port=worker)
        programs.start(
            "dask",
            "worker",
            f"tcp://{to_scheduler.address}",
            "--listen-address",
            f"tcp://{WORKER_HOST}:{worker}",
            "--contact-address",
            f"tcp://{to_worker.address}",
            "--nworkers",
            "1",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
        )
        said = programs.python(CLIENT, f"127.0.0.1:{scheduler}")
        assert f"WORKER tcp://{to_worker.address}" in said, said
        assert "SUM 332833500" in said, said
        assert "BYTES 20000000" in said, said
        assert to_worker.received_bytes > 20_000_000
        return f"a thousand tasks and a result of 20 MB; received {to_worker.received_bytes} bytes"
