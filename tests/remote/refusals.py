"""Single operations that somebody might try who sends steps of their own making.

`x` is result 1 (an array of floats), `frame` 2, `tensor` 3, `names` 4 (a series of texts). Each attempt is
the steps that come after these; the last one is the attempt.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Attempt(NamedTuple):
    category: str
    what: str
    steps: tuple[list[Any], ...]


def one(category: str, what: str, operation: str, *arguments: Any, **keywords: Any) -> Attempt:
    step: list[Any] = [10, operation, list(arguments)]
    if keywords:
        step.append(keywords)
    return Attempt(category, what, (step,))


X, FRAME, TENSOR, NAMES = [1], [2], [3], [4]
WALK, FILES, CODE, CALLBACKS = "attribute walks", "files", "code", "callbacks"
FORMATS, MEMORY, IDS, WRITES, PROCESS = "format strings", "memory", "numbers of results", "writing", "process"

REFUSED = [
    # attribute walks
    one(WALK, "the class of an object", "@__class__", X),
    one(WALK, "its dictionary", "@__dict__", FRAME),
    one(WALK, "a dunder method", ".__reduce__", X),
    one(WALK, "another", ".__getattribute__", X, "shape"),
    one(WALK, "its base", "@base", X),
    one(WALK, "globals of a method", "@__globals__", FRAME),
    one(WALK, "the manager of a frame", "@_mgr", FRAME),
    one(WALK, "getattr as a function", "builtins.getattr", X, "__class__"),
    one(WALK, "setattr as a function", "builtins.setattr", X, "shape", 1),
    one(WALK, "operator.attrgetter", "operator.attrgetter", "__class__"),
    one(WALK, "operator.methodcaller", "operator.methodcaller", "dump", "/tmp/x"),
    one(WALK, "vars", "builtins.vars", FRAME),
    one(WALK, "an attribute that is set", "@=__class__", X, 1),
    one(WALK, "the data of a tensor, set", "@=data", TENSOR, TENSOR),
    # files
    one(FILES, "numpy.load", "numpy.load", "/etc/passwd"),
    one(FILES, "numpy.save", "numpy.save", "/tmp/x", X),
    one(FILES, "numpy.fromfile", "numpy.fromfile", "/etc/passwd"),
    one(FILES, "numpy.memmap", "numpy.memmap", "/tmp/x"),
    one(FILES, "numpy.genfromtxt", "numpy.genfromtxt", "/etc/passwd"),
    one(FILES, "ndarray.tofile", ".tofile", X, "/tmp/x"),
    one(FILES, "ndarray.dump", ".dump", X, "/tmp/x"),
    one(FILES, "DataFrame.to_csv", ".to_csv", FRAME, "/tmp/x"),
    one(FILES, "DataFrame.to_pickle", ".to_pickle", FRAME, "/tmp/x"),
    one(FILES, "DataFrame.to_sql", ".to_sql", FRAME, "t", "sqlite:///tmp/x"),
    one(FILES, "pandas.read_csv", "pandas.read_csv", "/etc/passwd"),
    one(FILES, "pandas.read_pickle", "pandas.read_pickle", "/tmp/x"),
    one(FILES, "torch.load", "torch.load", "/tmp/x"),
    one(FILES, "torch.save", "torch.save", TENSOR, "/tmp/x"),
    one(FILES, "torch.hub", "torch.hub.load", "a/b", "c"),
    one(FILES, "polars.read_csv", "polars.read_csv", "/etc/passwd"),
    one(FILES, "open", "builtins.open", "/etc/passwd"),
    one(FILES, "a cache of scikit-learn on the disk", "sklearn.pipeline.Pipeline", ["l"], memory="/tmp/x"),
    one(FILES, "fetching a data set", "sklearn.datasets.fetch_openml", "mnist"),
    # code
    one(CODE, "eval", "builtins.eval", "1"),
    one(CODE, "exec", "builtins.exec", "1"),
    one(CODE, "import", "builtins.__import__", "os"),
    one(CODE, "DataFrame.eval", ".eval", FRAME, "@pd.io.common.os.system('id')"),
    one(CODE, "DataFrame.query", ".query", FRAME, "@pd.io.common.os.system('id')"),
    one(CODE, "pandas.eval", "pandas.eval", "1"),
    one(CODE, "torch.jit", "torch.jit.script", TENSOR),
    one(CODE, "torch.compile", "torch.compile", TENSOR),
    one(CODE, "the formulas of statsmodels", "statsmodels.formula.api.ols", "y ~ x", FRAME),
    one(CODE, "os.system", "os.system", "id"),
    one(CODE, "pickle.loads", "pickle.loads", "x"),
    # callbacks
    one(CALLBACKS, "a method by name in agg", ".agg", FRAME, "to_csv"),
    one(CALLBACKS, "the same in a list", ".agg", FRAME, ["l", "mean", "to_pickle"]),
    one(CALLBACKS, "the same by column", ".agg", FRAME, ["d", "age", "to_csv"]),
    one(CALLBACKS, "a function of NumPy by name", ".agg", FRAME, "save"),
    one(CALLBACKS, "apply with a name", ".apply", FRAME, "to_csv"),
    one(CALLBACKS, "transform with a name", ".transform", FRAME, "to_json"),
    one(CALLBACKS, "pipe", ".pipe", FRAME, ["f", "numpy.sum"]),
    one(CALLBACKS, "a function that is in no list", ".apply", FRAME, ["f", "os.system"]),
    one(CALLBACKS, "vectorize", "numpy.vectorize", ["f", "numpy.sum"]),
    one(CALLBACKS, "a hook of a tensor", ".register_hook", TENSOR, ["f", "numpy.sum"]),
    one(CALLBACKS, "Tensor.apply_", ".apply_", TENSOR, ["f", "numpy.sum"]),
    one(CALLBACKS, "padding by a function", "numpy.pad", X, 1, ["f", "numpy.sum"]),
    one(CALLBACKS, "a distribution by a text that walks a module", "scipy.stats.kstest", X, "__class__"),
    one(CALLBACKS, "the same in place of a sample", "scipy.stats.kstest", "__loader__", "norm"),
    one(CALLBACKS, "the same of a plot", "scipy.stats.probplot", X, dist="__builtins__"),
    one(CALLBACKS, "a plot", "scipy.stats.probplot", X, plot=FRAME),
    one(CALLBACKS, "an optimiser by name", "scipy.stats.gamma.fit", X, optimizer="minimize"),
    one(CALLBACKS, "a function that is integrated", "scipy.stats.norm.expect", ["f", "numpy.sum"]),
    one(CALLBACKS, "a distribution that draws", ".rvs", ["c", "scipy.stats.norm"], 3),
    one(CALLBACKS, "its generator", "@random_state", ["c", "scipy.stats.norm"]),
    # format strings
    one(FORMATS, "str.format", ".format", "{0.__class__}", X),
    one(FORMATS, "str.format_map", ".format_map", "{a}", ["d", "a", X]),
    one(FORMATS, "format as a function", "builtins.format", X, "x"),
    one(FORMATS, "repr", "builtins.repr", X),
    # memory that is not the object's
    one(MEMORY, "as_strided", "numpy.lib.stride_tricks.as_strided", X, ["t", 1000], ["t", 8]),
    one(MEMORY, "the same of torch", "torch.as_strided", TENSOR, ["t", 1000], ["t", 1]),
    one(MEMORY, "memory that nobody has written", "numpy.empty", 1000),
    one(MEMORY, "the same of torch", "torch.empty", 1000),
    one(MEMORY, "frombuffer", "numpy.frombuffer", X),
    one(MEMORY, "the address of an array", "@ctypes", X),
    one(MEMORY, "the address of a tensor", ".data_ptr", TENSOR),
    one(MEMORY, "the storage of a tensor", ".untyped_storage", TENSOR),
    one(MEMORY, "a tensor over another's storage", ".set_", TENSOR, TENSOR),
    one(MEMORY, "an array that grows in place", ".resize_", TENSOR, 1000),
    # writing
    one(WRITES, "into an asset", "operator.setitem", X, 0, 7.0),
    one(WRITES, "a new column of an asset", "operator.setitem", FRAME, "age", 1),
    one(WRITES, "in place, of a tensor", ".add_", TENSOR, 1),
    one(WRITES, "by out=", "numpy.add", X, X, out=X),
    one(WRITES, "by a third argument", "numpy.add", X, X, X),
    one(WRITES, "by inplace=", ".dropna", FRAME, inplace=True),
    one(WRITES, "by overwrite_data=", "scipy.signal.detrend", X, overwrite_data=True),
    one(WRITES, "by overwrite_a=", "scipy.linalg.svdvals", X, overwrite_a=True),
    one(WRITES, "by output=", "scipy.linalg.norm", X, output=X),
    one(WRITES, "to a generator", "scipy.spatial.distance.directed_hausdorff", X, X, rng=X),
    one(WRITES, "by copyto", "numpy.copyto", X, X),
    Attempt(
        WRITES,
        "append of something private to a list of one's own",
        ([10, "builtins.list", [["l", 1]]], [11, ".append", [[10], X]]),
    ),
    Attempt(WRITES, "extend of it", ([10, "builtins.list", [["l", 1]]], [11, ".extend", [[10], X]])),
    # numbers of results
    one(IDS, "a result that is not there", "operator.add", [77], 1),
    one(IDS, "an asset that is not shared", "asset", "other", 1),
    one(IDS, "another revision", "asset", "x", 2),
    # the process
    one(PROCESS, "more processes", "sklearn.ensemble.RandomForestClassifier", n_jobs=4),
    one(PROCESS, "threads of torch", "torch.set_num_threads", 64),
    one(PROCESS, "options of the process", "pandas.set_option", "mode.copy_on_write", False),
    one(PROCESS, "another device", ".to", TENSOR, "cuda"),
]
