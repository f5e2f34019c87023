"""A package of somebody else's that adds a value type, a path and a list of operations: tests/extension.

It is built and installed by pip, into a directory that stands in for site-packages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import Kernel, MakeKernel

pytestmark = pytest.mark.slow

EXTENSION = Path(__file__).resolve().parents[1] / "extension"
ONLY = "settings=duetlink.Settings(only={})"
WHOEVER_HAS_IT = ONLY.format("('folder', 'tcp')")
WHOEVER_HAS_NOT = ONLY.format("('tcp',)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed."""
    target = tmp_path_factory.mktemp("extension") / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    what = ["--no-build-isolation", "--target", str(target), str(EXTENSION)]
    subprocess.run([*pip, *what], check=True, timeout=60)
    return target


@pytest.fixture
def with_it(site: Path, tmp_path: Path) -> tuple[str, ...]:
    """The beginning of a command that runs where it is installed."""
    return ("env", f"PYTHONPATH={site}", f"MEASURES_FOLDER={tmp_path}")


def connected(owner: Kernel, scientist: Kernel, at_owner: str, at_scientist: str) -> None:
    """A duet of both, with these settings: the owner shares an array, and a policy approves what is asked."""
    assert owner.run(f"duet = duetlink.launch({at_owner})") == "ok None"
    assert scientist.run(f"duet = duetlink.join({owner.value('duet.code')}, {at_scientist})") == "ok None"
    assert owner.run("duet.wait_connected(30)") == "ok None"
    assert owner.run("duet.policies.add(duetlink.Policy('approve'))") == "ok None"
    assert owner.run("duet.share(np.arange(4.0), 'x', mock='auto')") == "ok None"
    assert scientist.run("x = duet.wait_object('x', 30)") == "ok None"


def test_its_path_and_its_value_type_keep_their_contracts(site: Path) -> None:
    # by its file: else the package beside it would be imported, and not the one that is installed
    pytest_ = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--import-mode=importlib"]
    done = subprocess.run(
        [*pytest_, str(EXTENSION / "contracts.py")],
        cwd=EXTENSION.parents[1],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    assert "19 passed" in done.stdout


def test_both_sides_use_all_three(make_kernel: MakeKernel, with_it: tuple[str, ...]) -> None:
    owner, scientist = make_kernel(*with_it), make_kernel(*with_it)
    connected(owner, scientist, *[ONLY.format("('folder',)")] * 2)
    # the path
    assert owner.run("duet.share(np.ones(200_000), 'large')") == "ok None"
    assert scientist.value("duet.wait_object('large', 30).get(timeout_s=30).sum()") == "np.float64(200000.0)"
    assert scientist.value("[each.path for each in duet.transfers]") == "['folder']"
    # the value type
    kilograms = "Measures(numbers=array([0., 1.]), unit='kg')"
    assert owner.run("import measures; duet.share(measures.Measures(np.arange(2.0), 'kg'), 'm')") == "ok None"
    assert scientist.value("duet.wait_object('m', 30).get(timeout_s=30)") == kilograms
    assert scientist.value("duet.store['m'].detail") == "'2 numbers in kg'"
    assert owner.run("duet.send(measures.Measures(np.arange(2.0), 'kg'), 'gift')") == "ok None"
    assert scientist.value("duet.store['gift'].get()") == kilograms
    # the list, in a room
    assert scientist.run("import measures; m = duet.remote(measures)") == "ok None"
    assert scientist.value("m.scaled(x, 2.0).get(timeout_s=60)") == "array([0., 2., 4., 6.])"
    assert scientist.value("m.measured(x[:2], 'kg').get(timeout_s=60)") == kilograms
    assert scientist.value("m.measured(x[:2], 'kg').numbers.get(timeout_s=60)") == "array([0., 1.])"
    assert owner.value("str(duet.requests[-1].code)") == "'measures.measured(x[:2], \"kg\").numbers'"
    refused = scientist.run("m.secret(x)")
    assert refused.startswith("error OperationRefused measures.secret is in no list")


def test_where_the_owner_alone_has_it_the_scientist_is_told_what_is_missing(
    make_kernel: MakeKernel, with_it: tuple[str, ...]
) -> None:
    owner, scientist = make_kernel(*with_it), make_kernel()
    connected(owner, scientist, WHOEVER_HAS_IT, WHOEVER_HAS_NOT)
    assert owner.run("import measures; duet.share(measures.Measures(np.arange(2.0), 'kg'), 'm')") == "ok None"
    assert scientist.run("duet.wait_object('m', 30).get(timeout_s=30)").startswith(
        "error MissingLibrary the value holds an object of 'measures', for which no package here has a value"
    )
    assert owner.run("duet.send(measures.Measures(np.arange(2.0), 'kg'), 'gift')") == (
        "error ValueRefused the peer does not take 'gift': the library that reads a measures.Measures is not "
        "installed there"
    )
    assert owner.run("duet.share(np.ones(200_000), 'large')") == "ok None"
    assert scientist.value("duet.wait_object('large', 30).get(timeout_s=30).sum()") == "np.float64(200000.0)"
    assert scientist.run("duetlink.Settings(only=('folder',))") == (
        "error SettingError only=('folder',), relay=True: choose from local, tcp, punched, udp, relay, "
        "channel"
    )


def test_where_the_scientist_alone_has_it_the_owner_refuses_by_name(
    make_kernel: MakeKernel, with_it: tuple[str, ...]
) -> None:
    owner, scientist = make_kernel(), make_kernel(*with_it)
    connected(owner, scientist, WHOEVER_HAS_NOT, WHOEVER_HAS_IT)
    assert scientist.run("import measures; y = duet.remote(measures).scaled(x, 2.0)") == "ok None"
    assert scientist.run("asked = y.request()") == "ok None"
    assert owner.value("duet.wait_request(30).code") == 'operation("measures.scaled")(x, 2.0)'
    unlisted = "measures.scaled is in no list of what may be called on private data"
    refused = owner.run("duet.requests[-1].approve()")  # no policy does
    assert refused.startswith("error OperationFailed ")
    assert unlisted in refused
    assert owner.run("duet.requests[-1].fail()") == "ok None"
    told = scientist.run("asked.result(60)")
    assert told.startswith("error OperationFailed ")
    assert "measures.scaled" in told
    assert owner.value("'measures' in __import__('sys').modules") == "False"


def test_what_rooms_cannot_find_is_refused_before_anything_runs(
    make_kernel: MakeKernel, site: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "modules"
    shutil.copytree(site, elsewhere)
    program = (
        "import asyncio\n"
        "from duetlink.compute.worker.kernel.process import Room\n"
        "from duetlink.errors import WorkerUnavailable\n"
        "try: asyncio.run(Room.start())\n"
        "except WorkerUnavailable as error: print(error)"
    )
    done = run_with(elsewhere, program)
    assert done == (
        "the room has other extensions than its kernel: [], not ['measures of duetlink-measures 1.0 "
        "(duetlink.operations)', 'measures of duetlink-measures 1.0 (duetlink.values)']; restart the kernel, "
        "or install them in its site-packages\n"
    )


def run_with(directory: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def written(directory: Path, package: str, entry_points: str, **files: str) -> None:
    """A package as an installer leaves it, with these modules and lists."""
    directory.mkdir(exist_ok=True)
    about = directory / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text(entry_points, "utf-8")
    for name, text in files.items():
        path = directory / name
        path.mkdir()
        (path / "__init__.py").write_text(text.partition("---")[0], "utf-8")
        (path / f"{name}.toml").write_text(text.partition("---")[2], "utf-8")


LIST = "[duetlink.operations]\nlengths = lengths"
WRONG = {
    "a value type of NumPy's": (
        "[duetlink.values]\nnumpy = lengths",
        "",
        "'numpy' of lengths 1.0 (duetlink.",
    ),
    "a value type of Python's": ("[duetlink.values]\ndatetime = lengths", "", "this name is duetlink's own"),
    "a value type that fails": ("[duetlink.values]\nlengths = lengths:NONE", "", "AttributeError: module"),
    "a path of ours": ("[duetlink.paths]\ntcp = lengths:Path", "", "'tcp' of lengths 1.0 (duetlink.paths)"),
    "a path that is none": ("[duetlink.paths]\nother = lengths:X", "X = 1", "it is no subclass of duetlink."),
    "a list for NumPy": ("[duetlink.operations]\nnumpy = lengths", "", "'numpy' of lengths 1.0 (duetlink.op"),
    "a list of NumPy": (LIST, "---module = 'numpy'", "its list is for 'numpy', and not for 'lengths'"),
    "no list": (LIST, "--- no list", "its list cannot be read: TOMLDecodeError"),
    "a package that fails": (LIST, "1 / 0", "its list cannot be read: ZeroDivisionError"),
    "a class of NumPy's": (
        LIST,
        "from numpy import ndarray---module = 'lengths'\n[classes.ndarray]\nother = ['tofile']",
        "its list has numpy.ndarray, a class of another library",
    ),
    "a function of NumPy's": (
        LIST,
        "from numpy import sum---module = 'lengths'\n[functions]\nelementwise = ['sum']",
        "its list has the object lengths.sum, which another list has as numpy.sum",
    ),
    "a constant of NumPy's": (
        LIST,
        "from numpy import float32---module = 'lengths'\nconstants = ['float32']",
        "its list has the object lengths.float32, which another list has as numpy.float32",
    ),
    "a method that does more": (
        LIST,
        "class L: pass\n---module = 'lengths'\n[classes.L]\nin_place = ['mean']",
        "its list says that .mean is in_place, and duetlink's own says aggregate",
    ),
    "a method that draws": (
        LIST,
        "class L: pass\n---module = 'lengths'\n[classes.L]\naggregate = ['mean']\nrandom = ['mean']",
        "its list says that .mean is random, and duetlink's own does not",
    ),
}
# what is installed is looked up once in a process: so each is tried in a fork of one
TRYING = """
import json, os, sys, traceback
from duetlink.compute.operations.allow_lists.allowed import Allowed
from duetlink.compute.operations.steps.effects import check_lists
from duetlink.data.values.registry import registered
from duetlink.net.paths.registry import OURS, path_class
from duetlink.errors import ExtensionFailed
from duetlink.extensions import PATHS, extensions
import numpy

def load(lists):
    registered()
    check_lists()
    for name in extensions(PATHS, frozenset(OURS)):
        path_class(name)
    Allowed(lists)

for directory, *lists in json.loads(sys.argv[1]):
    said, say = os.pipe()
    if not os.fork():
        sys.path.insert(0, directory)
        try:
            load(lists)
            words = "nothing is wrong"
        except ExtensionFailed as error:
            words = str(error)
        except BaseException:
            words = traceback.format_exc()
        os.write(say, words.encode())
        os._exit(0)
    os.close(say)
    print(json.dumps(os.read(said, 60_000).decode()))
    os.wait()
"""


def said_of(*tried: tuple[Path, str, str]) -> list[str]:
    """What loading says where such a directory is on the path, and these lists are wanted in this order."""
    asked = json.dumps([[str(directory), *lists] for directory, *lists in tried])
    done = subprocess.run(
        [sys.executable, "-c", TRYING, asked], capture_output=True, text=True, check=True, timeout=60
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_package_that_takes_what_is_not_its_own_is_named(tmp_path: Path) -> None:
    directories = {what: tmp_path / str(number) for number, what in enumerate(WRONG)}
    for what, (entry_points, module, _) in WRONG.items():
        written(directories[what], "lengths", entry_points, lengths=module)
    said = said_of(
        *((directory, "numpy", "lengths") for directory in directories.values()),
        *((directory, "lengths", "numpy") for directory in directories.values()),
    )
    for what, words in zip([*WRONG, *WRONG], said, strict=True):
        assert "of lengths 1.0 (duetlink." in words, what
        assert WRONG[what][2] in words, what
        assert words.endswith("uninstall the package, or install a version that works"), what


def test_two_packages_with_one_name_are_both_named(tmp_path: Path) -> None:
    written(tmp_path, "lengths", "[duetlink.values]\nlengths = lengths", lengths="")
    written(tmp_path, "weights", "[duetlink.values]\nlengths = weights", weights="")
    (said,) = said_of((tmp_path, "numpy", "numpy"))
    assert "this name is taken by " in said
    assert "lengths 1.0" in said
    assert "weights 1.0" in said
