"""A Spark session, classic and by Connect, for all tests of one process: to start Java takes seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.free_port import free_port


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine, which Spark needs")
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        # one tiny job after the other: compiling each costs more than running it
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    settings |= {
        # the same process serves Spark Connect, so that one Java machine is enough for both
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    # py4j and gRPC keep sockets, which they open when they are first used
    session.createDataFrame([(1,)], "a int").toArrow()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_connect(spark: Any) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    port = spark.conf.get("spark.connect.grpc.binding.port")
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    # py4j and gRPC keep sockets, which they open when they are first used
    session.createDataFrame([(1,)], "a int").toArrow()
    yield session
    session.stop()
