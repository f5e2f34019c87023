"""What is in no list does not exist: code, files, ways from an object to what it is made of."""

from __future__ import annotations

import pytest

from duetlink.compute.worker.protocol import faults
from tests.remote.attempts import REFUSED, each
from tests.remote.hostile import FRAME, NAME, OPEN, TENSOR, HostileDesk, Step, X

VECTORIZER = "sklearn.feature_extraction.text.CountVectorizer"

# by one step, done to the array, the frame or the text of the owner
CODE: dict[str, Step] = {
    "eval": [9, "builtins.eval", ["1 + 1"]],
    "exec": [9, "builtins.exec", ["import os"]],
    "compile": [9, "builtins.compile", ["1", "", "eval"]],
    "import": [9, "builtins.__import__", ["os"]],
    "the operating system": [9, "os.system", ["id"]],
    "the operating system, by a library that imported it": [9, "numpy.f2py.os.system", ["id"]],
    "a subprocess": [9, "subprocess.run", ["id"]],
    "getattr": [9, "builtins.getattr", [X, "__class__"]],
    "setattr": [9, "builtins.setattr", [FRAME, "_mgr", 1]],
    "vars": [9, "builtins.vars", [FRAME]],
    "type": [9, "builtins.type", [X]],
    "attrgetter": [9, "operator.attrgetter", ["__class__.__mro__"]],
    "methodcaller": [9, "operator.methodcaller", ["dump", "x"]],
    "partial": [9, "functools.partial", [["f", "numpy.sum"], X]],
    "an object's class": [9, "@__class__", [X]],
    "an object's dictionary": [9, "@__dict__", [FRAME]],
    "a walk over dots": [9, ".__class__.__init__.__globals__", [X]],
    "a walk over dots, of functions": [9, "numpy.sum.__globals__", []],
    "any attribute by a dunder": [9, ".__getattribute__", [X, "base"]],
    "globals of a method": [9, "@__globals__", [FRAME]],
    "a class that is set": [9, "@=__class__", [X, 1]],
    "unpickling": [9, "pickle.loads", ["x"]],
    "pickle by a method": [9, ".__reduce_ex__", [X, 4]],
    "what holds the frame": [9, "@_mgr", [FRAME]],
    "set what holds the frame": [9, "@=_mgr", [FRAME, 1]],
    "an attribute of any name": [9, "@=secret", [FRAME, 1]],
    "format": [9, ".format", ["{0.__class__}", X]],
    "format as a function": [9, "builtins.format", [X, "x"]],
    "format_map": [9, ".format_map", [NAME, ["d"]]],
    "percent": [9, "operator.mod", ["%s", X]],
    "DataFrame.eval": [9, ".eval", [FRAME, "@__import__('os').system('id')"]],
    "DataFrame.query": [9, ".query", [FRAME, "age > @__builtins__"]],
    "DataFrame.pipe": [9, ".pipe", [FRAME, ["f", "builtins.len"]]],
    "pandas.eval": [9, "pandas.eval", ["1"]],
    "a column called like a method": [9, "@eval", [FRAME]],
    "a column as an attribute": [9, "@age", [FRAME]],
    "polars.sql": [9, "polars.sql", ["select 1"]],
    "vectorize": [9, "numpy.vectorize", [["f", "builtins.len"]]],
    "frompyfunc": [9, "numpy.frompyfunc", [["f", "builtins.len"], 1, 1]],
    "torch.jit": [9, "torch.jit.script", [["f", "torch.relu"]]],
    "torch.compile": [9, "torch.compile", [["f", "torch.relu"]]],
    "C++ extensions": [9, "torch.utils.cpp_extension.load", ["x", ["l"]]],
    "torch operators by name": [9, "torch.ops.load_library", ["x.so"]],
    "FunctionTransformer": [9, "sklearn.preprocessing.FunctionTransformer", [["f", "builtins.len"]]],
    "formula": [9, "statsmodels.formula.api.ols", ["age ~ __import__('os')", FRAME]],
    "a constant that is a function": [9, "builtins.len", [["c", "builtins.open"]]],
    "a function that is in no list": [9, "builtins.sorted", [["l", 1]], {"key": ["f", "builtins.eval"]}],
    "repr": [9, "builtins.repr", [X]],
    "identity, which tells of memory": [9, "operator.is_", [X, X]],
    "hash, which tells of texts": [9, "builtins.hash", [NAME]],
}
FILES: dict[str, Step] = {
    "open": [9, "builtins.open", ["/etc/passwd"]],
    "numpy.load": [9, "numpy.load", ["/etc/passwd"]],
    "numpy.save": [9, "numpy.save", ["/tmp/x", X]],
    "numpy.genfromtxt": [9, "numpy.genfromtxt", ["/etc/passwd"]],
    "numpy.fromfile": [9, "numpy.fromfile", ["/etc/passwd"]],
    "numpy.memmap": [9, "numpy.memmap", ["/etc/passwd"]],
    "ndarray.tofile": [9, ".tofile", [X, "/tmp/x"]],
    "ndarray.dump": [9, ".dump", [X, "/tmp/x"]],
    "DataFrame.to_csv": [9, ".to_csv", [FRAME, "/tmp/x"]],
    "DataFrame.to_csv without a file": [9, ".to_csv", [FRAME]],
    "DataFrame.to_pickle": [9, ".to_pickle", [FRAME, "/tmp/x"]],
    "DataFrame.to_sql": [9, ".to_sql", [FRAME, "t", "sqlite://"]],
    "DataFrame.to_clipboard": [9, ".to_clipboard", [FRAME]],
    "pandas.read_csv": [9, "pandas.read_csv", ["http://example.org/?q=1"]],
    "pandas.read_pickle": [9, "pandas.read_pickle", ["/tmp/x"]],
    "polars.scan_csv": [9, "polars.scan_csv", ["/etc/passwd"]],
    "torch.load": [9, "torch.load", ["/etc/passwd"]],
    "torch.save": [9, "torch.save", [X, "/tmp/x"]],
    "torch.hub": [9, "torch.hub.load", ["a/b", "c"]],
    "load_files": [9, "sklearn.datasets.load_files", ["/etc"]],
    "fetch_openml": [9, "sklearn.datasets.fetch_openml", ["iris"]],
    "an estimator's cache": [9, "sklearn.pipeline.make_pipeline", ["passthrough"], {"memory": "/tmp/x"}],
    "texts that are file names": [9, VECTORIZER, [], {"input": "filename"}],
    "a time zone that is a file": [9, "pandas.Timestamp", ["2024-01-01"], {"tz": "dateutil//etc/passwd"}],
    "print into a buffer": [9, ".info", [FRAME]],
}
MEMORY: dict[str, Step] = {
    "numpy.empty": [9, "numpy.empty", [1000]],
    "torch.empty": [9, "torch.empty", [1000]],
    "Tensor.new_empty": [9, ".new_empty", [TENSOR, ["t", 1000]]],
    "Tensor.resize_": [9, ".resize_", [TENSOR, ["t", 1000]]],
    "pad that leaves it as it is": [9, "numpy.pad", [["l", 1.0], 1000], {"mode": "empty"}],
    "results where there is no condition": [9, "numpy.add", [["l", 1.0], 1], {"where": ["l", False]}],
    "as_strided": [9, "numpy.lib.stride_tricks.as_strided", [X, ["t", 1000], ["t", 8]]],
    "a writable sliding window": [
        9,
        "numpy.lib.stride_tricks.sliding_window_view",
        [X, 2],
        {"writeable": True},
    ],
    "frombuffer": [9, "numpy.frombuffer", ["abc"]],
    "an array's address": [9, "@ctypes", [X]],
    "an array's memory": [9, "@data", [X]],
    "what an array is a view of": [9, "@base", [X]],
    "Tensor.set_": [9, ".set_", [TENSOR, TENSOR]],
    "Tensor.data_ptr": [9, ".data_ptr", [TENSOR]],
    "Tensor.untyped_storage": [9, ".untyped_storage", [TENSOR]],
    "Tensor.as_strided": [9, ".as_strided", [TENSOR, ["t", 1000], ["t", 1]]],
    "indices that compiled code trusts": [
        9,
        "scipy.sparse.csr_matrix",
        [["t", ["l", 1.0], ["l", 9], ["l", 0, 1]]],
    ],
    "a sparse layout": [9, "torch.ones", [4], {"layout": ["c", "torch.sparse_coo"]}],
    "items that are addresses": [9, "numpy.zeros", [4], {"dtype": "O"}],
    "items of parts": [9, "numpy.zeros", [4], {"dtype": "f8,O"}],
    "a view as addresses": [9, ".view", [X, "O"]],
    "objects as items": [9, "numpy.array", [["l", ["e"]]]],
    "another device": [9, "torch.ones", [4], {"device": "meta"}],
}


@pytest.fixture
def desk() -> HostileDesk:
    desk = HostileDesk()
    desk.run(*OPEN)
    return desk


def refused(desk: HostileDesk, step: Step) -> None:
    """By a rule of ours, before a library has seen it."""
    told = desk.run(step)
    assert list(told) == [0]
    assert told[0].code != faults.RAISED


@each("code, and ways from an object to what it is made of", REFUSED, CODE)
def test_code_is_not_run(desk: HostileDesk, name: str) -> None:
    refused(desk, CODE[name])


@each("files, databases, addresses on the network", REFUSED, FILES)
def test_files_are_not_opened(desk: HostileDesk, name: str) -> None:
    refused(desk, FILES[name])


@each("memory beside the data, or that nobody has written", REFUSED, MEMORY)
def test_memory_is_not_reached(desk: HostileDesk, name: str) -> None:
    refused(desk, MEMORY[name])
