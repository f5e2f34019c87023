"""Check an Arrow IPC stream from a peer before pyarrow reads it.

pyarrow slices uncompressed buffers out of the body without a copy and checks them on request (`validate`).
Three things happen earlier, while it parses, and are checked here first:

- a compressed buffer is allocated at the size that its first 8 bytes claim;
- a delta dictionary is joined to its predecessor, for each batch, which is quadratic in time and memory;
- an extension type that some Python library has registered is built by that library's code from the peer's
  bytes, and some unpickle them.

The first two are visible in each message's flatbuffer: https://arrow.apache.org/docs/format/Columnar.html#ipc
and `Message.fbs` there. For the third the schema is read with the extension's key disabled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from duetlink.errors import MalformedValue

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
# Canonical types, which Arrow itself builds, and pandas's, which read JSON.
EXTENSIONS = {
    b"arrow.bool8",
    b"arrow.fixed_shape_tensor",
    b"arrow.json",
    b"arrow.opaque",
    b"arrow.uuid",
    b"arrow.variable_shape_tensor",
    b"pandas.interval",
    b"pandas.period",
}
_KEY = b"ARROW:extension:name"
_DISABLED_KEY = b"ARROW_extension_name"


def check(stream: memoryview) -> None:
    """Raise MalformedValue for a stream that pyarrow must not parse."""
    for index, (start, end, kind, header, table) in enumerate(_messages(stream)):
        if (kind == _SCHEMA) != (index == 0):
            raise MalformedValue("an Arrow stream has its schema in a wrong place")
        if kind == _SCHEMA:
            _check_extensions(bytes(stream[start:end]))
        elif kind == _DICTIONARY:
            if header.flag(table, 2):
                raise MalformedValue("an Arrow stream has a dictionary delta")
            _check_batch(header, header.child(table, 1))
        elif kind == _BATCH:
            _check_batch(header, table)
        else:
            raise MalformedValue(f"an Arrow stream has a message of kind {kind}")


def _check_batch(header: _Flatbuffer, batch: int) -> None:
    if header.field(batch, 3) is not None:
        raise MalformedValue("an Arrow stream is compressed")


def _messages(stream: memoryview) -> Iterator[tuple[int, int, int, _Flatbuffer, int]]:
    position = 0
    while position < len(stream):
        if len(stream) - position < 8:
            raise MalformedValue("an Arrow stream is cut short")
        marker, size = struct.unpack_from("<Ii", stream, position)
        if marker != 0xFFFFFFFF or size < 0 or size > len(stream) - position - 8:
            raise MalformedValue("an Arrow stream has a message of a wrong size")
        if size == 0:
            if position + 8 != len(stream):
                raise MalformedValue("an Arrow stream goes on after its end")
            return
        flat = _Flatbuffer(stream[position + 8 : position + 8 + size])
        message = flat.root()
        start = position
        position += 8 + size
        body = flat.number(message, 3, "<q")
        if body < 0 or body > len(stream) - position:
            raise MalformedValue("an Arrow message's body ends after the stream")
        yield start, position, flat.number(message, 1, "<B"), flat, flat.child(message, 2)
        position += body


def _check_extensions(schema_message: bytes) -> None:
    if _KEY not in schema_message:
        return
    schema = pa.ipc.read_schema(pa.py_buffer(schema_message.replace(_KEY, _DISABLED_KEY)))
    for name in _extension_names(schema):
        if name not in EXTENSIONS:
            raise MalformedValue(f"the Arrow extension type {name[:60]!r} is not among those that may arrive")


def _extension_names(schema: pa.Schema) -> Iterator[bytes]:
    fields = list(schema)
    while fields:
        field = fields.pop()
        if field.metadata and _DISABLED_KEY in field.metadata:
            yield field.metadata[_DISABLED_KEY]
        fields.extend(children(field.type))


def check_names(schema: pa.Schema) -> None:
    """Raise MalformedValue for a field name that is not UTF-8, which Arrow decodes only on access."""
    fields = list(schema)
    try:
        while fields:
            field = fields.pop()
            _ = field.name
            fields.extend(children(field.type))
    except UnicodeDecodeError:
        raise MalformedValue("an Arrow schema has a field name that is not UTF-8") from None


def children(type_: Any) -> list[Any]:
    """Return the fields that an Arrow type consists of, whatever its interface."""
    if isinstance(type_, pa.DictionaryType):
        return [pa.field("", type_.value_type)]
    if isinstance(type_, pa.RunEndEncodedType):
        return [pa.field("", type_.value_type)]
    if isinstance(type_, pa.BaseExtensionType):
        return [pa.field("", type_.storage_type)]
    return [type_.field(index) for index in range(type_.num_fields)]


class _Flatbuffer:
    """The few reads that are needed, each within bounds: struct.unpack_from refuses the others."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def _get(self, form: str, position: int) -> int:
        if position < 0:
            raise MalformedValue("an Arrow message points before itself")
        try:
            return int(struct.unpack_from(form, self._data, position)[0])
        except struct.error as error:
            raise MalformedValue("an Arrow message points past its end") from error

    def root(self) -> int:
        return self._get("<I", 0)

    def field(self, table: int, index: int) -> int | None:
        """Return the position of a table's field, None if it has its default."""
        vtable = table - self._get("<i", table)
        entry = 4 + 2 * index
        if entry + 2 > self._get("<H", vtable):
            return None
        offset = self._get("<H", vtable + entry)
        return table + offset if offset else None

    def number(self, table: int, index: int, form: str) -> int:
        position = self.field(table, index)
        return 0 if position is None else self._get(form, position)

    def flag(self, table: int, index: int) -> bool:
        return bool(self.number(table, index, "<B"))

    def child(self, table: int, index: int) -> int:
        position = self.field(table, index)
        if position is None:
            raise MalformedValue("an Arrow message has no content")
        return position + self._get("<I", position)
