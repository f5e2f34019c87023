"""A file that is there whole, or not at all."""

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
    """Write batches as Parquet, beside its place first. Raises PrepNotWritten, and what `batches` raises."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    given = iter(batches)
    first = next(given, None)
    if first is None:
        raise PrepError(f"there is no batch to write to {path}", file=str(path))
    try:
        with _beside(path) as place, pq.ParquetWriter(place, first.schema) as writer:
            writer.write_batch(first)
            for batch in given:
                writer.write_batch(batch)
    except DuetError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise PrepNotWritten(
            f"{path} cannot be written ({error}): make room, or choose another place. Nothing of it is there"
        ) from error
    return path


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[str]:
    """A file in the same directory, which takes its place in the end; gone if anything goes wrong."""
    handle, place = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        os.close(handle)
        yield place
        with open(place, "rb") as file:
            os.fsync(file.fileno())  # where there is no room after all, some systems say so only here
        os.replace(place, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
