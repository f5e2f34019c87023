"""Arrow tables, batches, arrays, scalars and schemas: as IPC streams whose buffers are the object's own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from duetlink.data.values import arrow_stream, arrow_views, reach
from duetlink.data.values.arrow_shown import shown
from duetlink.data.values.base import Reader, Writer, counted
from duetlink.data.values.schema_pb2 import Arrow, Node
from duetlink.errors import LimitExceeded, MalformedValue


class _Sink:
    """A file that keeps its writes: pa.Buffer for an array's memory, bytes for everything between."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.size_bytes = 0

    def write(self, piece: Any) -> int:
        view = memoryview(piece)
        self.pieces.append(view.cast("B") if view.format != "B" else view)
        self.size_bytes += view.nbytes
        return int(view.nbytes)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class ArrowType:
    def describe(self, obj: Any) -> str:
        if isinstance(obj, (pa.Table, pa.RecordBatch)):
            return f"{counted(obj.num_rows, 'row')} × {counted(obj.num_columns, 'column')}"
        if isinstance(obj, (pa.Array, pa.ChunkedArray)):
            return counted(len(obj), "item")
        return counted(len(obj), "field") if isinstance(obj, pa.Schema) else ""

    def elements(self, obj: Any) -> int | None:
        if isinstance(obj, (pa.Table, pa.RecordBatch)):
            if any(map(_has_more, obj.schema.types)):
                return None
            # a table without rows still has the names of its columns
            return int(max(1, obj.num_rows) * max(1, obj.num_columns))
        if isinstance(obj, (pa.Array, pa.ChunkedArray)):
            return None if _has_more(obj.type) else max(1, len(obj))
        if isinstance(obj, pa.Scalar):
            return None if _has_more(obj.type) else 1
        return max(1, len(obj)) if isinstance(obj, pa.Schema) else 1

    def write(self, obj: Any, writer: Writer) -> None:
        try:
            kind, schema, batches = _stream(obj)
        except pa.ArrowException as error:
            raise writer.unsupported(obj, f"Arrow cannot put it in a batch ({error}); cast it") from error
        if kind == Arrow.UNSPECIFIED:
            raise writer.unsupported(obj, "send a table, batch, array, scalar or schema of Arrow")
        _refuse_extensions(obj, schema, writer)
        try:
            sink = write_stream(schema, batches, plain_nan=writer.plain_nan)
        except pa.ArrowException as error:
            raise writer.unsupported(obj, f"Arrow cannot write it ({error}); cast it") from error
        except (LimitExceeded, MalformedValue) as error:
            raise writer.unsupported(
                obj, f"{error}; cast its views to large_string, drop its nulls"
            ) from error
        writer.node(arrow=Arrow(kind=kind))
        writer.segment(sink.size_bytes, lambda: sink.pieces)

    def read(self, node: Node, reader: Reader) -> object:
        table, batches, schema = read_stream(reader.segment())
        match node.arrow.kind:
            case Arrow.TABLE:
                return table
            case Arrow.SCHEMA:
                return schema
            case Arrow.BATCH:
                return _only(batches)
            case Arrow.CHUNKED:
                return table.column(_only(list(range(table.num_columns))))
            case Arrow.ARRAY:
                return _only(_only(batches).columns)
            case Arrow.SCALAR:
                return _only(_only(_only(batches).columns))
        raise MalformedValue(f"Arrow kind {node.arrow.kind} is unknown here")


def _has_more(kind: pa.DataType) -> bool:
    """Return True for types whose items hold several numbers, or whose dictionary order is data, too."""
    return bool(pa.types.is_nested(kind) or pa.types.is_dictionary(kind))


def _stream(obj: Any) -> tuple[Any, Any, list[Any]]:
    """Return the object's kind, and the schema and batches that carry it."""
    if type(obj) is pa.Table:
        return Arrow.TABLE, obj.schema, obj.to_batches() if obj.num_columns else _rows_only(obj)
    if type(obj) is pa.RecordBatch:
        return Arrow.BATCH, obj.schema, [obj]
    if type(obj) is pa.Schema:
        return Arrow.SCHEMA, obj, []
    if type(obj) is pa.ChunkedArray:
        schema = pa.schema([pa.field("", obj.type)])
        return Arrow.CHUNKED, schema, [pa.record_batch([chunk], schema=schema) for chunk in obj.chunks]
    if isinstance(obj, pa.Array):
        schema = pa.schema([pa.field("", obj.type)])
        return Arrow.ARRAY, schema, [pa.record_batch([obj], schema=schema)]
    if isinstance(obj, pa.Scalar):
        schema = pa.schema([pa.field("", obj.type)])
        return Arrow.SCALAR, schema, [pa.record_batch([pa.repeat(obj, 1)], schema=schema)]
    return Arrow.UNSPECIFIED, None, []


def _rows_only(table: Any) -> list[Any]:
    """Return a batch with a number of rows and nothing else, for a table without columns."""
    return (
        [pa.RecordBatch.from_struct_array(pa.nulls(table.num_rows, pa.struct([])))] if table.num_rows else []
    )


def _refuse_extensions(obj: object, schema: Any, writer: Writer) -> None:
    types = [field.type for field in schema]
    while types:
        type_ = types.pop()
        if (
            isinstance(type_, pa.BaseExtensionType)
            and type_.extension_name.encode() not in arrow_stream.EXTENSIONS
        ):
            raise writer.unsupported(
                obj, f"the extension type {type_.extension_name} does not travel; send its .storage"
            )
        types.extend(field.type for field in arrow_stream.children(type_))


def write_stream(schema: Any, batches: list[Any], *, plain_nan: bool, by_appearance: bool = False) -> _Sink:
    """Return the stream in pieces: only what the batches show. If nothing is hidden, buffers are not copied.

    Raises:
        LimitExceeded: views show far more than their memory.
        MalformedValue: a view of text lies outside of its memory.
    """
    sink = _Sink()
    file = pa.PythonFile(sink, mode="w")
    options = pa.ipc.IpcWriteOptions(compression=None, emit_dictionary_deltas=False)
    cut = []
    with pa.ipc.new_stream(file, schema, options=options) as stream:
        for batch in batches:
            if batch.num_columns:
                columns = [
                    shown(column, plain_nan=plain_nan, by_appearance=by_appearance)
                    for column in batch.columns
                ]
                batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            cut.append(batch)
            stream.write_batch(batch)
    check_cost(cut, sink.size_bytes)
    return sink


def read_stream(segment: memoryview) -> tuple[Any, list[Any], Any]:
    """Return the table, its batches and its schema: views of the segment, fully validated."""
    arrow_stream.check(segment)
    with pa.ipc.open_stream(pa.py_buffer(segment)) as stream:
        batches = list(stream)
        schema = stream.schema
    arrow_stream.check_names(schema)
    check_cost(batches, len(segment))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema), batches, schema


def check_cost(batches: list[Any], size_bytes: int) -> None:
    """Check that batches do not show far more than their memory; called by sender and receiver.

    Raises:
        LimitExceeded: batches show far more than their memory.
        MalformedValue: a view of text lies outside of its memory.
    """
    # a few hundred bytes can announce any number of rows without memory: nulls, empty structs
    rows = sum(batch.num_rows for batch in batches)
    if rows > max(8 * size_bytes, reach.FREE_ITEMS):
        raise LimitExceeded(f"{rows:,} rows are in {size_bytes:,} bytes")
    for batch in batches:
        for column in batch.columns:
            arrow_views.check(column, size_bytes)


def _only(items: Any) -> Any:
    if len(items) != 1:
        raise MalformedValue(f"expected one Arrow item, got {len(items)}")
    return items[0]


HANDLER = ArrowType()
