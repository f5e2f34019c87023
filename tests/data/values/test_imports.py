"""A library is imported when a value of its own is met, and never because of a peer's word alone."""

from __future__ import annotations

import subprocess
import sys

HEAVY = "('numpy', 'torch', 'pyarrow', 'pandas', 'polars')"


def run(code: str) -> None:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_importing_the_package_and_builtins_import_no_array_library() -> None:
    run(
        "import sys; from duetlink.data.values import encode, decode, summarise\n"
        "value = {'a': [1, 'x', None], 'b': bytes(1000)}\n"
        "assert decode(bytearray(b''.join(encode(value).segments))) == value\n"
        f"assert not [name for name in {HEAVY} if name in sys.modules]"
    )


def test_a_numpy_array_imports_numpy_only() -> None:
    run(
        "import sys, numpy as np; from duetlink.data.values import encode, decode\n"
        "decode(bytearray(b''.join(encode(np.arange(3)).segments)))\n"
        f"assert [name for name in {HEAVY} if name in sys.modules] == ['numpy']"
    )


def test_a_missing_library_is_named() -> None:
    from duetlink.data.values import encode

    for make, library in (
        ("torch.ones(2)", "torch"),
        ("polars.Series([1])", "polars"),
        ("pandas.Series([1])", "pandas"),
    ):
        module = __import__(library)
        body = b"".join(encode(eval(make, {library: module})).segments)
        run(
            f"import sys; sys.modules[{library!r}] = None\n"
            "from duetlink.data.values import decode; from duetlink.errors import MissingLibrary\n"
            "try:\n"
            f"    decode(bytearray({body!r}))\n"
            "except MissingLibrary as error:\n"
            f"    assert 'pip install' in str(error) and {library!r} in str(error), error\n"
            "else: raise SystemExit('decoded')"
        )
