"""The result of a preparation, as tensors, arrays, Arrow tables, batches, a file or a loader."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.prep.columns import needed
from duetlink.data.prep.fields import TRAIN, Fields
from duetlink.data.prep.lowering import blamed, first_unfit, lowered
from duetlink.data.prep.spec import PrepSpec
from duetlink.data.prep.work import ROW
from duetlink.errors import DuetError, PrepError, SettingError
from duetlink.prep.engines.base import Opened, arrow_types
from duetlink.prep.files import files_at, located, probe
from duetlink.prep.matrix import Matrix, array_of, check_numbers
from duetlink.prep.numbers import number_columns, read_numbers
from duetlink.prep.pieces import batches_of
from duetlink.prep.progress import RowProgress
from duetlink.prep.writing import write_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from duetlink.prep.loader import Loader

BATCH_ROWS = 65_536  # rows; a few MB for usual tables


class Prepared:
    """The rows that a preparation makes. They are read when they are used; tables in memory only once.

    Missing items are null in Arrow and NaN in arrays. `train` and `test` are the parts of a split.

    Each method that reads rows raises PrepError, with file, row and column, if the source does not fit the
    preparation. Ctrl-C stops it.
    """

    def __init__(
        self, spec: PrepSpec, opened: Opened, part: bool | None = None, whole: Prepared | None = None
    ) -> None:
        """Check columns and types without reading rows. Raises PrepError.

        `part` selects a part of `whole`: True the train part, False the test part, None all rows.
        """
        split = spec.split_step
        self.spec = spec
        self._opened = opened
        self._part = part
        self._whole = self if whole is None else whole
        self._table: pa.Table | None = None
        self._row = split is not None and not split.by and opened.ordered
        self._lowered = lowered(spec, opened.fields, opened.where, row=self._row)
        self._read = needed(spec, opened.fields)
        self._numbers = number_columns(spec, opened.fields, self._read)

    # -- properties ------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        """The engine: pyarrow, polars, duckdb or spark."""
        return self._opened.engine

    @property
    def columns(self) -> Mapping[str, str]:
        """The types of the columns by name. The parts of a split have no column `train`."""
        return {name: field.type for name, field in self._fields.items()}

    @property
    def _fields(self) -> Fields:
        fields = self._lowered.fields
        return fields if self._part is None else {n: f for n, f in fields.items() if n != TRAIN}

    @functools.cached_property
    def train(self) -> Prepared:
        """The rows of the train part. Raises SettingError if there is no split."""
        return self._of(True)

    @functools.cached_property
    def test(self) -> Prepared:
        """The rows of the test part. Raises SettingError if there is no split."""
        return self._of(False)

    def _of(self, part: bool) -> Prepared:
        if self.spec.split_step is None or self._part is not None:
            raise SettingError("there is no split here: Prep().split(train=0.8, seed=1, by=…) makes one")
        return Prepared(self.spec, self._opened, part, self)

    def __len__(self) -> int:
        """Return the number of rows. This reads all rows; engines in memory keep them."""
        if not self._opened.keeps and self._table is None:
            return sum(batch.num_rows for batch in self.batches())
        return int(self.arrow().num_rows)

    def __repr__(self) -> str:
        part = {None: "", True: ", train", False: ", test"}[self._part]
        columns = ", ".join(f"{name}: {kind}" for name, kind in list(self.columns.items())[:20])
        more = f" and {len(self.columns) - 20:,} more" if len(self.columns) > 20 else ""
        return f"<Prepared{part} of {self._opened.where} by {self.engine}: {columns}{more}>"

    # -- rows ------------------------------------------------------------------------------------------------

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. It is kept, and each call returns the same one."""
        if self._table is None:
            if self._part is not None and self._opened.keeps:
                self._table = _part_of(self._whole.arrow(), self._part)
            elif self._part is not None:
                import pyarrow as pa

                self._table = pa.Table.from_batches(list(self._stream(BATCH_ROWS)))
            else:
                with self._working(counts=False):
                    table = self._collected()
                    if number := self._unfit(table):
                        self._blame(number)
                    self._table = self._named(table)
        return self._table

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Return the rows in batches of at most `rows`. There is at least one batch, which may be empty.

        The source is read piece by piece while the batches are used, so it need not fit into memory. A small
        table, and one that another method has read already, gives views.
        """
        if type(rows) is not int or rows < 1:
            raise SettingError(f"a batch has 1 row or more, not {rows!r}")
        if self._opened.streams and self._table is None and self._whole._table is None:
            return self._stream(rows)
        return batches_of(self.arrow(), rows)

    def _stream(self, rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        some = False
        given = self._opened.stream(self._lowered.apply, self._read, rows, row=self._row)
        # closed explicitly: a notebook keeps the frames of an error, and they would keep the file open
        with self._working(counts=True) as progress, contextlib.closing(given) as pieces:
            for batch in pieces:
                table = pa.Table.from_batches([batch])
                if number := self._unfit(table):
                    pieces.close()
                    self._blame(number)
                table = self._named(table)
                if self._part is not None:
                    table = _part_of(table, self._part)
                progress.add(batch.num_rows)
                some = some or table.num_rows > 0
                if table.num_rows:
                    yield from batches_of(table, rows)
            if not some:
                yield from batches_of(table, rows)

    def _collected(self) -> pa.Table:
        """Execute all steps, with columns of CSV files read as numbers if all items are numbers."""
        opened, numbers, lowering, read = self._opened, self._numbers, self._lowered, [None]
        if opened.csv is not None and numbers is not None:
            read = [read_numbers(opened.csv, self._read, numbers)]
        if read[0] is not None and numbers is not None:
            lowering = lowered(self.spec, numbers.fields(opened.fields), opened.where, row=self._row)
        # nothing here keeps the table, so that PyArrow frees it after the first step that makes another
        return opened.collect(lowering.apply(opened.frame(self._read, row=self._row, table=read.pop())))

    @contextlib.contextmanager
    def _working(self, *, counts: bool) -> Iterator[RowProgress]:
        """Show progress, translate errors of engines to PrepError, and cancel the engine on an interrupt."""
        name = Path(self._opened.where).name
        with RowProgress(f"prepare {name}", counts=counts) as progress:
            try:
                yield progress
            except (KeyboardInterrupt, GeneratorExit):
                self._opened.cancel()
                raise
            except (DuetError, MemoryError):
                raise
            except Exception as error:
                self._explain(error)

    def _explain(self, error: Exception) -> None:
        """Raise PrepError that names the broken file, if one is broken, or has the engine's words."""
        where = self._opened.where
        if Path(where).exists():
            probe(files_at(Path(where)))
        words = " ".join(str(error).split())[:300]
        raise PrepError(
            f"{self.engine} cannot read or prepare {where}: {type(error).__name__}: {words}", file=where
        ) from error

    # -- results of an engine --------------------------------------------------------------------------------

    def _unfit(self, table: pa.Table) -> int:
        """Return the number of the first step that an item does not fit; 0 if all items fit."""
        import pyarrow.compute as pc

        if not self._lowered.strict:
            return 0
        bad = table.column(len(self._lowered.fields))
        return int(pc.min(bad.filter(pc.greater(bad, 0))).as_py()) if pc.max(bad).as_py() else 0

    def _named(self, table: pa.Table) -> pa.Table:
        """Restore the user's column names, and convert to the types that each engine has to give."""
        import pyarrow as pa

        types, fields = arrow_types(), self._lowered.fields
        columns = [
            self._typed(column, name, types.get(field.type))
            for column, (name, field) in zip(table.columns, fields.items(), strict=False)
        ]
        return pa.Table.from_arrays(columns, names=list(fields))

    def _typed(self, column: Any, name: str, kind: Any) -> Any:
        """Convert a column to the Arrow type `kind`; None means the type that it has in the source."""
        import pyarrow as pa
        import pyarrow.types as kinds

        opened = self._opened
        if kind is None and opened.schema is not None:
            kind = opened.schema.field(name).type
        if kind is None or column.type == kind:
            return column
        try:
            if kinds.is_floating(column.type) and not kinds.is_floating(kind):
                raise pa.ArrowInvalid("its digits would be rounded")
            return column.cast(kind)
        except pa.ArrowException as error:
            raise PrepError(
                f"{opened.engine} makes {column.type} of column {name!r} of {opened.where}, which is {kind} "
                f"({error}): select the others, or choose another engine",
                file=opened.where,
                column=name,
            ) from None

    def _blame(self, number: int) -> None:
        """Raise PrepError for step `number`, with the first row and the column that do not fit."""
        opened, row = self._opened, self._opened.ordered
        found = first_unfit(self.spec, number, opened.fields, opened.where, ordered=row)
        if opened.streams:
            with contextlib.closing(opened.stream(found.apply, self._read, 1, row=row)) as pieces:
                bad = next(piece.to_pylist()[0] for piece in pieces if piece.num_rows)
        else:
            bad = opened.collect(found.apply(opened.frame(self._read, row=row))).to_pylist()[0]
        raise blamed(self.spec, number, bad, *self._place(bad.get(ROW)))

    def _place(self, row: int | None) -> tuple[str, int | None]:
        """Return the file that contains a row of the source, and the row's number in it."""
        where = Path(self._opened.where)
        if row is None or not where.is_dir():
            return self._opened.where, row
        path, row = located(files_at(where), row)
        return str(path), row

    # -- arrays, tensors, files ------------------------------------------------------------------------------

    def column(self, name: str) -> NDArray[Any]:
        """Return a column as an array: a view of Arrow's memory if it is one piece without missing items."""
        return array_of(self.arrow().column(self._known(name)), name)

    def numpy(self, dtype: Any = np.float32, columns: list[str] | None = None) -> NDArray[Any]:
        """Return a new array of shape (rows, columns), C-contiguous. Missing items are NaN.

        Fractions are rounded to a floating point `dtype`; float32 has 24 bits.

        Raises:
            PrepError: a column is no numbers, or has items that `dtype` cannot hold: outside its range;
                missing items or fractions in an integer type; a whole number beyond 16,777,216 in float32,
                or beyond 2**53 in float64.
        """
        names = list(self._fields) if columns is None else [self._known(name) for name in columns]
        if not self._opened.ordered:
            self.arrow()  # kept, so that a later `column` has the same order of rows
        return self._matrix(names, dtype)[0]

    def _matrix(
        self, names: list[str], dtype: Any, label: str | None = None
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return columns as a matrix, and the column `label` in the same order.

        Both are read in one pass, since the rows of a relation may have another order the next time.
        """
        import pyarrow as pa

        wanted = names if label is None else [*names, self._known(label)]
        check_numbers({name: self._fields[name].type for name in wanted}, self._opened.where)
        streams = not self._opened.keeps and self._table is None
        matrix = Matrix(len(names), dtype, 0 if streams else len(self))
        labels = []
        for batch in self.batches():
            matrix.add(batch.select(names))
            if label is not None:
                labels.append(batch.column(label))
        return matrix.finish(), None if label is None else array_of(pa.chunked_array(labels), label)

    def tensor(self, dtype: Any = np.float32, columns: list[str] | None = None) -> torch.Tensor:
        """Return the array of `numpy` as a tensor that shares its memory. `dtype` is a NumPy dtype."""
        import torch

        return torch.from_numpy(self.numpy(dtype, columns))

    def to_parquet(self, path: str | Path) -> Path:
        """Write the rows to a file, batch by batch. The file appears under its name only when complete.

        Raises:
            PrepNotWritten: no disk space, or no permission; an existing file is unchanged.
        """
        return write_parquet(Path(path), self.batches())

    def loader(
        self,
        batch: int | None = None,
        *,
        label: str | None = None,
        shuffle: int | None = None,
        poisson: float | None = None,
        steps: int | None = None,
        seed: int | None = None,
        dtype: Any = np.float32,
    ) -> Loader:
        """Return batches for training as tensors; see `Loader`. All rows are held in memory as one matrix."""
        from duetlink.prep.loader import Loader

        names = [name for name in self._fields if name != label]
        data, labels = self._matrix(names, dtype, label)
        return Loader(data, labels, batch, shuffle=shuffle, poisson=poisson, steps=steps, seed=seed)

    def _known(self, name: str) -> str:
        if name not in self._fields:
            raise PrepError(
                f"there is no prepared column {name!r}, but {', '.join(list(self._fields)[:20])}", column=name
            )
        return name


def _part_of(table: pa.Table, part: bool) -> pa.Table:
    import pyarrow.compute as pc

    chosen = table.column(TRAIN)
    return table.drop_columns([TRAIN]).filter(chosen if part else pc.invert(chosen))
