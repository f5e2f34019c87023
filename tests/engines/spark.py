"""Spark Connect: a server at the data owner's (Sail, without a JVM), the Spark client at the scientist's."""

from __future__ import annotations

import duetlink
from tests.engines.programs import Programs, wait_listening
from tests.free_port import free_port

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(f"sc://{sys.argv[1]}").getOrCreate()
frame = spark.range(100_000).selectExpr("id % 7 as day", "id as value")
for row in frame.groupBy("day").sum("value").orderBy("day").collect():
    print("ROW", row[0], row[1])
print("WHOLE", spark.range(2_000_000).selectExpr("rand(7) as x").toArrow().nbytes)
spark.stop()
"""


def run(programs: Programs) -> str:
    port = free_port()
    programs.start("sail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port))
    wait_listening(port)
    with duetlink.launch() as owner, duetlink.join(str(owner.code)) as scientist:
        owner.share_port(port, "spark")
        opened = scientist.open_port("spark")
        said = programs.python(CLIENT, opened.address)
        rows = [tuple(map(int, line.split()[1:])) for line in said.splitlines() if line.startswith("ROW")]
        assert rows == [(day, sum(range(day, 100_000, 7))) for day in range(7)], said
        assert "WHOLE 16000000" in said, said
        assert opened.received_bytes > 14_000_000  # random numbers do not compress
        return f"a query and a table of 16 MB; received {opened.received_bytes} bytes"
