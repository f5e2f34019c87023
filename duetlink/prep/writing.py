"""Writes a file so that it appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from duetlink.errors import DuetError, PrepError, PrepNotWritten

if TYPE_CHECKING:
    import pyarrow as pa


def write_parquet(path: Path, batches: Iterable[pa.RecordBatch]) -> Path:
    """Write batches as Parquet, first to a temporary file in the same directory.

    Raises PrepNotWritten, and whatever `batches` raises.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    given = iter(batches)
    first = next(given, None)
    if first is None:
        raise PrepError(f"there is no batch to write to {path}", file=str(path))
    try:
        with _replacing(path) as temporary, pq.ParquetWriter(temporary, first.schema) as writer:
            writer.write_batch(first)
            for batch in given:
                writer.write_batch(batch)
    except DuetError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise PrepNotWritten(
            f"{path} cannot be written ({error}): free disk space, or choose another directory. "
            "No incomplete file is left"
        ) from error
    return path


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[str]:
    """Give a temporary file in the same directory that replaces `path` at the end; delete it on an error."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        os.close(handle)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # some systems report a full disk only here
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
