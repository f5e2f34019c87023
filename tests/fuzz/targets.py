"""What is fuzzed: for each decoder, how an input is made and what is done with it.

An input is a byte string, so that the one that a process died of can be kept and tried again. `make` draws
from a seeded `random.Random`; `consume` raises DuetError for what is refused, and nothing else.
"""

from __future__ import annotations

import functools
import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from google.protobuf.message import Message

from duetlink.base.wire import envelope
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.fragments import LAST, MORE, Reassembler, split
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps import body as program_body
from duetlink.data import values
from duetlink.data.codecs import aggregate, chunk
from duetlink.data.codecs.element import BY_NAME, ELEMENTS, Element
from duetlink.data.codecs.integers.fixed_point import FixedPoint
from duetlink.data.codecs.integers.lane import FixedPointFormat
from duetlink.data.codecs.integers.spans import BLOCK_ITEMS, Spans
from duetlink.data.codecs.registry import codecs
from duetlink.data.codecs.sketch.peel import peel
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.data.dedup.manifest import Manifest
from duetlink.data.prep.columns import fields_after
from duetlink.data.prep.fields import Field as Column
from duetlink.data.prep.spec import PrepSpec
from duetlink.data.values import body as layout
from duetlink.data.values.schema_pb2 import Array, Arrow, DType, Field, Node, Polars, Scalar
from duetlink.data.values.touch import touch
from duetlink.errors import CodecFailed, LocalProtocolError
from duetlink.groups.collectives.sums.sketch_terms import HEAD_BYTES, SketchTerms, head_of
from duetlink.groups.secure.introduction import Held, Introduction
from duetlink.groups.secure.member_secrets import Secrets
from duetlink.groups.secure.naming import TRIALS, Evidence, MaskStatement, TrialFacts
from tests.data.dedup.bodies import manifest_of, pack, stream
from tests.fuzz import gossip, mutate

ROOM_BYTES = 1 << 20  # that an input may take beside its own size


class Target(NamedTuple):
    """One decoder."""

    make: Callable[[random.Random], bytes]
    consume: Callable[[bytes], None]
    samples: Callable[[], list[bytes]]  # inputs that are well formed, where what is made starts from
    slack_bytes: int = 16 << 20  # what allocators and libraries take beside, whatever the input
    size_bytes: Callable[[bytes], int] = len  # of what reaches the decoder
    time_share: float = 1.0  # of what each may take at a push: less for little code
    from_peer: bool = True  # those that read what their own side has written are not tried at each push


# -- encoded values ------------------------------------------------------------------------------------------


@functools.cache
def _bodies(libraries: tuple[str, ...]) -> list[tuple[list[Node], list[bytes]]]:
    """Nodes and segments of the samples that the contract of these value types names."""
    from tests.data.values import test_contract as contracts

    found = []
    for library in libraries:
        for sample in getattr(contracts, f"Test{library}")().samples().values():
            encoded = values.encode(sample)
            view = memoryview(b"".join(encoded.segments))
            header, segments = layout.split(view, 1_000_000)
            found.append(
                ([Node.FromString(node) for node in header.nodes], [bytes(part) for part in segments])
            )
    return [(nodes, parts) for nodes, parts in found if sum(map(len, parts)) < 100_000]


def _make_body(rng: random.Random, libraries: tuple[str, ...]) -> bytes:
    if libraries == _PLAIN and rng.random() < 0.1:
        return _make_items(rng)
    if libraries == _ARROW and rng.random() < 0.05:
        return _make_views(rng)
    bodies = _bodies(libraries)
    nodes, segments = rng.choice(bodies)
    nodes = [Node.FromString(node.SerializeToString()) for node in nodes]
    segments = list(segments)
    lender: list[Message] = [*rng.choice(bodies)[0]]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        kind = rng.random()
        if kind < 0.5 or not segments:
            mutate.message(rng, rng.choice(nodes), lender)
        elif kind < 0.9:
            at = rng.randrange(len(segments))
            # most often the numbers in it: what is longer or shorter is refused by its size
            change = mutate.octets if rng.random() < 0.2 else mutate.words
            segments[at] = change(rng, segments[at])
        elif kind < 0.95:
            at = rng.randrange(len(nodes))
            lent = Node.FromString(rng.choice(lender).SerializeToString())  # what is lent stays as it is
            nodes[at : at + 1] = rng.choice(([], [nodes[at]] * 2, [lent]))
            if not nodes:
                nodes = [Node(list=0)]
        else:
            at = rng.randrange(len(segments))
            segments[at : at + 1] = rng.choice(([], [segments[at]] * 2, [b""]))
    data = _joined(nodes, segments)
    return mutate.octets(rng, data) if rng.random() < 0.05 else data


def _make_items(rng: random.Random) -> bytes:
    """An array of records whose fields nearly fit: sizes and offsets that meet where C integers wrap."""
    size = rng.choice((1, 8, 16, 16, 40, 300))
    count = rng.choice((0, 1, 1, 3, 50))
    dtype = _items(rng, size, 0)
    shape = [count] if rng.random() < 0.8 else [count, rng.choice(mutate.EDGES)]
    data = rng.choice((bytes, rng.randbytes))(size * count)
    if count == 1 and rng.random() < 0.5:
        return _joined([Node(scalar=Scalar(dtype=dtype, data=data))], [])
    return _joined([Node(array=Array(dtype=dtype, shape=shape))], [data])


def _make_views(rng: random.Random) -> bytes:
    """A column of text whose views say anything, also where the items are null."""
    count = rng.choice((1, 3, 8))
    slots = np.zeros((count, 4), "<i4")
    for slot in slots[: rng.randrange(count + 1)]:
        slot[:] = [mutate.integer(rng, rng.choice((0, 1, 12, 13)), -(2**31), 2**31 - 1) for _ in range(4)]
        if rng.random() < 0.7:
            slot[2] = 0
    data = [pa.py_buffer(bytes(size)) for size in rng.choice(((), (64,), (0, 100)))]
    validity = pa.py_buffer(rng.choice((b"\0", b"\x05", b"\xff")))
    type_ = rng.choice((pa.string_view(), pa.binary_view()))
    column = pa.Array.from_buffers(type_, count, [validity, pa.py_buffer(slots.tobytes()), *data])
    if rng.random() < 0.3:
        column = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), column)
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=["v"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:  # writes what it is given
        writer.write_batch(batch)
    kinds = (Node(polars=Polars(series=True)), Node(polars=Polars()), Node(arrow=Arrow(kind=Arrow.TABLE)))
    return _joined([rng.choice(kinds)], [bytes(sink.getvalue())])


def _items(rng: random.Random, size_bytes: int, depth: int) -> DType:
    """A dtype of about this size."""
    kind = rng.random()
    if depth < 4 and (depth == 0 or kind < 0.2):
        fields = []
        for number in range(rng.choice((1, 2, 2, 5))):
            offset = rng.randrange(size_bytes + 1)
            own = size_bytes - offset
            if rng.random() < 0.2:
                offset = mutate.integer(rng, offset, 0, 2**64 - 1)
            if rng.random() < 0.2:
                own = max(0, rng.choice((2**31, 2**32, 2**31 + size_bytes)) - offset)
            fields.append(Field(name=b"%d" % number, offset=offset, dtype=_items(rng, own, depth + 1)))
        return DType(kind=DType.STRUCT, size_bytes=size_bytes, fields=fields, record=rng.random() < 0.1)
    if depth < 4 and kind < 0.4:
        each = rng.choice((0, 1, 4, 8))
        shape = [rng.choice((size_bytes // max(1, each), rng.choice(mutate.EDGES)))]
        return DType(kind=DType.SUBARRAY, base=_items(rng, each, depth + 1), shape=shape)
    if kind < 0.6:
        plain = rng.choice((DType.INT, DType.FLOAT, DType.COMPLEX, DType.BOOL))
        return DType(kind=plain, size_bytes={DType.BOOL: 1, DType.COMPLEX: 16}.get(plain, 8))
    texts = rng.choice((DType.OCTETS, DType.TEXT, DType.VOID))
    return DType(kind=texts, size_bytes=size_bytes - size_bytes % (4 if texts == DType.TEXT else 1))


def _joined(nodes: Sequence[Node], segments: Sequence[bytes]) -> bytes:
    head = layout.prefix([node.SerializeToString() for node in nodes], [len(part) for part in segments])
    return b"".join(layout.gather(head, [[memoryview(part)] for part in segments]))


def _body_samples(libraries: tuple[str, ...]) -> list[bytes]:
    return [_joined(nodes, segments) for nodes, segments in _bodies(libraries)]


def _use_body(data: bytes) -> None:
    touch(values.decode(bytearray(data), room=values.DecodeBudget(ROOM_BYTES)))


_PLAIN = ("Builtins", "Numpy", "Torch", "Pandas")
_ARROW = ("Arrow", "Polars")


# -- chunks of all codecs ------------------------------------------------------------------------------------


def _arrays(element: Any) -> list[Any]:
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 40, (4, 60), dtype=np.uint8).repeat(element.size_bytes, axis=1)
    array = np.ascontiguousarray(raw).view(element.storage)
    return [array if element.name != "bool" else array > 9, array.reshape(-1)[:0], array.reshape(-1)[:65]]


@functools.cache
def _chunks() -> list[bytes]:
    found = []
    for codec in codecs():
        for element in ELEMENTS:
            for array in _arrays(element):
                try:
                    found.append(chunk.encode(array, codec, None, element))
                except (CodecFailed, LocalProtocolError):
                    continue
    return found


def _make_chunk(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(_chunks()))
    end = 25 + 8 * data[8]  # the header of chunk.py: dimensions at 8, then the bounds, then the shape
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.3:
            at = rng.choice((5, 6, 7, 8, *range(25, end, 8)))
            data[at] = mutate.integer(rng, data[at], 0, 255)
        else:
            payload = mutate.octets(rng, bytes(data[end + 16 :]))
            data[end + 16 :] = payload
            struct.pack_into("<Q", data, end, len(payload))
    tail = 25 + 8 * data[8] + 8
    if len(data) >= tail + 8:  # a checksum is no secret
        digest = xxhash.xxh3_64(bytes(data[:tail]))
        digest.update(bytes(data[tail + 8 :]))
        data[tail : tail + 8] = digest.intdigest().to_bytes(8, "little")
    return bytes(data)


def _use_chunk(data: bytes) -> None:
    array, _ = chunk.decode(data, ROOM_BYTES, references=lambda name: np.zeros(65, np.float32))
    touch(array)


# -- manifests -----------------------------------------------------------------------------------------------


@functools.cache
def _manifests() -> list[bytes]:
    rng = np.random.default_rng(3)
    held = (
        pack(rng.random(9000), np.arange(70), rng.random((40, 300))),
        stream(rng.bytes(100_000)),
        stream(b""),
        stream(b"x"),
    )
    return [struct.pack("<Q", one.body.nbytes) + manifest_of(one).to_bytes() for one in held]


def _make_manifest(rng: random.Random) -> bytes:
    return mutate.octets(rng, rng.choice(_manifests()))


def _use_manifest(data: bytes) -> None:
    if len(data) < 8:
        return
    manifest = Manifest.from_bytes(data[8:], struct.unpack("<Q", data[:8])[0])
    assert len(manifest.cuts.ends) == len(manifest.names)
    manifest.to_bytes()


# -- envelopes, in fragments ---------------------------------------------------------------------------------

# An input is a list of (how often, size, bytes): a flood of equal fragments is a short input.
_FRAGMENT = struct.Struct("<IH")
_MOST_FED_BYTES = 2 << 20


@functools.cache
def _envelopes() -> list[pb.Envelope]:
    found = []
    for field in pb.Envelope.DESCRIPTOR.oneofs_by_name["body"].fields:
        rng = random.Random(field.name)
        made = pb.Envelope(id=7, deadline_ms=1000)
        body = getattr(made, field.name)
        body.SetInParent()
        for _ in range(12):
            mutate.message(rng, body, [])
        found.append(made)
    return found


def _make_fragments(rng: random.Random) -> bytes:
    made = pb.Envelope.FromString(rng.choice(_envelopes()).SerializeToString())
    for _ in range(rng.randrange(4)):
        mutate.message(rng, made, [rng.choice(_envelopes())])
    data = made.SerializeToString()
    fragments = [(1, part) for part in split(mutate.octets(rng, data) if rng.random() < 0.4 else data)]
    for _ in range(rng.randrange(3)):
        part = rng.choice((MORE, MORE + b"x", MORE + bytes(60), LAST, b"", b"\x02x", LAST + data[:60_000]))
        often = rng.choice((1, 2, 100, 100_000, 2_000_000) if part[:1] == MORE else (1, 2, 100))
        fragments.insert(rng.randrange(len(fragments) + 1), (often, part))
    return b"".join(_FRAGMENT.pack(often, len(part)) + part for often, part in fragments)


def _fragment_samples() -> list[bytes]:
    whole = [LAST + made.SerializeToString() for made in _envelopes()]
    return [_FRAGMENT.pack(1, len(part)) + part for part in whole if len(part) < 60_000]


def _fragments(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + _FRAGMENT.size <= len(data):
        often, size = _FRAGMENT.unpack_from(data, at)
        at += _FRAGMENT.size
        found.append((min(often, _MOST_FED_BYTES // max(1, size)), data[at : at + size]))
        at += size
    return found


def _use_fragments(data: bytes) -> None:
    reassembler = Reassembler()
    fed = 0
    for often, part in _fragments(data):
        for _ in range(often):
            fed += max(1, len(part))
            if fed > _MOST_FED_BYTES:
                return
            whole = reassembler.feed(bytes(part))
            if whole is not None:
                _use_envelope(whole)


def _use_envelope(data: bytes) -> None:
    from duetlink.base.wire import failures
    from duetlink.duet.objects.asset import AssetInfo

    _, body = envelope.unpack(data)
    if isinstance(body, pb.AssetNotice):
        repr(AssetInfo.from_wire(body))
    elif isinstance(body, pb.Failure):
        str(failures.from_wire(body))


def _fed_bytes(data: bytes) -> int:
    return min(_MOST_FED_BYTES, sum(often * max(1, len(part)) for often, part in _fragments(data)))


# -- programs ------------------------------------------------------------------------------------------------

_NAMES = (
    *("operator.add", "operator.getitem", "operator.setitem", "numpy.mean", ".copy", ".fit", "@T", "@=x"),
    *(
        "numpy.copyto",
        ".backward",
        ".bernoulli",
        "public",
        "x" * 200,
    ),
)


def _argument(rng: random.Random, made: int, depth: int = 0) -> Any:
    """One of a step before which there are `made` results."""
    kind = rng.randrange(10 if depth < 4 else 4)
    if kind < 2:
        return [
            rng.randrange(1, made + 1) if rng.random() < 0.99 else rng.choice((0, -1, made + 1, 1.0, True))
        ]
    if kind < 4:
        scalar = (None, True, -1, 1.5, 2**70, "text", "a\nb", "é" * 50, rng.choice(mutate.EDGES))
        return rng.choice(scalar)
    tag = rng.choice("tldsezcf?")
    if tag in "cf":
        return [tag, rng.choice(_NAMES)]
    count = {"s": 3, "z": 2, "e": 0}.get(tag, rng.randrange(5))
    return [tag, *(_argument(rng, made, depth + 1) for _ in range(count))]


def _make_program(rng: random.Random) -> bytes:
    steps: list[Any] = [["asset", ["patients", 1]], ["value", [0]]]
    for _ in range(rng.choice((3, 10, 40))):
        arguments = [_argument(rng, len(steps)) for _ in range(rng.randrange(4))]
        step: list[Any] = [rng.choice(_NAMES), arguments]
        if rng.random() < 0.3:
            step.append({rng.choice(("out", "axis", "1 = 2")): _argument(rng, len(steps))})
            if rng.random() < 0.5:
                modes = ({"grad": False}, {"draw": [None, 3]}, {"draw": [7, 0]}, {"draw": [7, -1]}, {"x": 1})
                step.append(rng.choices(modes, (8, 8, 8, 1, 1))[0])
        steps.append(step)
    if rng.random() < 0.05:
        steps.append([rng.choice(("x" * 300, "", "drop", "grad", "torch.manual_seed")), [], {"x" * 250: 1}])
    if rng.random() < 0.1:
        deep: Any = [1]
        for _ in range(rng.choice((19, 21, 500, 5000))):
            deep = ["l", deep]
        steps.append(["operator.add", [deep]])
    try:
        content = json.dumps(steps).encode()
    except RecursionError:
        content = b'[["x",[' + b'["l",' * 50_000 + b"1"
    if rng.random() < 0.3:
        content = mutate.octets(rng, content)
    target = rng.choice((len(steps), 1, 3, 0))
    pieces, _ = program_body.write(target, content, [b"abc"], [program_body.Words("list", "3 items")])
    written = b"".join(pieces)
    return mutate.octets(rng, written) if rng.random() < 0.1 else written


def _program_samples() -> list[bytes]:
    steps = b'[["asset",["patients",1]],[".copy",[[1]]],["numpy.mean",[[2]],{"axis":0}]]'
    return [b"".join(program_body.write(3, steps)[0])]


def _use_program(data: bytes) -> None:
    program = Program.read(memoryview(data))
    again = Program.read(memoryview(b"".join(program.segments)))
    assert (again.digest, again.lineage) == (program.digest, program.lineage)
    repr(program.steps)


_LIBRARY_SLACK_BYTES = 48 << 20

# -- preparations --------------------------------------------------------------------------------------------


def _prep_samples() -> list[bytes]:
    spec = PrepSpec().missing("NA").drop_missing().cast({"a": "int64"}, invalid="missing")
    spec = spec.one_hot("b", ["x", "é"]).one_hot("c", [0, -1]).scale("a", (0, 9.5)).clip("d", within=(0, 1))
    return [PrepSpec().to_json().encode(), spec.split(0.5, seed=1, by="a").select("a").to_json().encode()]


def _make_prep(rng: random.Random) -> bytes:
    sample = rng.choice(_prep_samples())
    if rng.random() < 0.5:
        return mutate.octets(rng, sample)
    return json.dumps(_another(rng, json.loads(sample))).encode()


_LEAVES: tuple[Any, ...] = (0, 1, -1, 0.5, 9.5, 1e308, "", "a", "b", "é", "int64", "text", True, None, [], {})


def _another(rng: random.Random, tree: Any) -> Any:
    """The same JSON, with one part at most left out, doubled or changed, somewhere."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.1:
        return rng.choice(_LEAVES) if rng.random() < 0.5 else tree
    if isinstance(tree, dict):
        chosen = rng.choice(list(tree))
        return {name: _another(rng, part) if name == chosen else part for name, part in tree.items()}
    at = rng.randrange(len(tree))
    chosen = rng.choice(([], [tree[at]] * 2, [_another(rng, tree[at])]))
    return [*tree[:at], *chosen, *tree[at + 1 :]]


def _use_prep(data: bytes) -> None:
    spec = PrepSpec.from_json(data)
    assert PrepSpec.from_json(spec.to_json()) == spec
    fields = {
        name: Column(kind) for name, kind in zip("abcd", ("int64", "text", "int8", "float64"), strict=True)
    }
    spec.table()
    fields_after(spec, fields)


# -- texts of query, eval, formulas and hypotheses -----------------------------------------------------------

_QUERIES = (
    "a > 1 & b < 2 or not `the sum` in [1, 'x', @limit]",
    "c = a.str.upper()\nd = 0 <= c < 4 != sqrt(abs(b)) // -1e3",
    "s == 'it\\'s' and day.dt.month not in (1, 2) # why",
)
_FORMULAS = (
    "np.log(y + 1) ~ (a + b:C(c, Treatment('x')))**3 - 1 + x[1:3] / Q(\"q\")",
    "y ~ 0 + a * b * c * d + I(~(x > 1) & {'k': -2}['k'])",
)
_HYPOTHESES = ("(x = z), 2 * C(k)[T.b] - z/1e3 = 0.5 = x, (((x)))",)
_PIECES = (
    "(",
    ")",
    "[",
    "]",
    "`",
    "@",
    "'",
    '"',
    "~",
    "**",
    "not ",
    "-",
    ",",
    "=",
    "9" * 30,
    "\0",
    "é",
    "\n",
    "#",
    "C(",
)


def _make_text(rng: random.Random) -> bytes:
    kind = rng.randrange(3)
    text = rng.choice((_QUERIES, _FORMULAS, _HYPOTHESES)[kind])
    for _ in range(rng.choice((0, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        piece = rng.choice(_PIECES) * rng.choice((1, 1, 1, 3, 60, 3000))
        text = text[:at] + piece + text[at + rng.choice((0, 0, 1, 5)) :]
    return bytes([kind]) + text.encode()


def _text_samples() -> list[bytes]:
    kinds = (_QUERIES, _FORMULAS, _HYPOTHESES)
    return [bytes([kind]) + text.encode() for kind, texts in enumerate(kinds) for text in texts]


def _use_text(data: bytes) -> None:
    from duetlink.duet.asking.grammar import formula_coding, formula_text
    from duetlink.duet.asking.grammar.formula_text import constraints
    from duetlink.duet.asking.grammar.frame_text import FrameText

    text = data[1:].decode(errors="replace")
    if data[:1] == b"\0":
        FrameText(text)
    elif data[:1] == b"\1":
        for side in formula_text.parsed(text):
            formula_coding.subterms(side, ["a", "x"])
    else:
        constraints([text], ["x", "z", "C(k)[T.b]"])


# -- what members send for coded sums ------------------------------------------------------------------------

_SUM_PLAN_BYTES = 24
_SECURE_MEMBERS = 4
_SUM_ITEMS = 600  # of the array that made-up exponents are used on


@functools.cache
def _sum_samples() -> list[bytes]:
    """After one byte that says what it is: two chunks to be added, a plan with its sketch, exponents, a fixed
    point, what a member tells before a secure sum, what it states of garbage in one, and what three members
    tell before they make sketches.
    """
    found = []
    for name in ("int16", "bfloat16", "uint64", "complex64"):
        element = BY_NAME[name]
        items = np.arange(40).astype(element.storage)
        one = aggregate.Aggregate(aggregate.VALUES, element, items, bytes(8), room_for=3).to_wire()
        found.append(b"\0" + struct.pack("<I", len(one)) + one + one)
    support = aggregate.Aggregate(
        aggregate.SUPPORT, BY_NAME["uint8"], np.arange(40, dtype=np.uint8), bytes(8)
    )
    found.append(b"\0" + struct.pack("<I", len(support.to_wire())) + 2 * support.to_wire())
    for load in (0, 5, 60):
        plan = SketchPlan.for_load(1000, load)
        sketch = plan.sketch(np.arange(load) * 7, np.arange(load) - 9)
        found.append(b"\1" + plan.to_wire() + sketch.tobytes())
    spans = Spans.of(np.linspace(-2, 2, _SUM_ITEMS, dtype=np.float32), BY_NAME["float32"])
    found.append(b"\2" + spans.flat.tobytes())
    found.append(b"\3" + FixedPoint.of_range(3.0, 4).to_wire())
    secrets = Secrets(1, _SECURE_MEMBERS)
    found.append(b"\4" + secrets.introduction(0, Held(), bytes(32)).to_wire())
    found.append(b"\5" + bytes(MaskStatement.size_bytes() + Evidence.size_bytes(_SECURE_MEMBERS)))
    few = np.arange(0, _SUM_ITEMS, 60)
    head = head_of(*_sparse(few), few, few.astype(np.float32) + 1)
    found.append(b"\6" + 3 * head.tobytes())
    return found


def _make_sum(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(_sum_samples()))
    kind, rest = data[:1], bytes(data[1:])
    for _ in range(rng.choice((1, 1, 2, 4))):
        rest = (mutate.octets if rng.random() < 0.4 else mutate.words)(rng, rest)
    data = bytearray(kind + rest)
    head = 5 + aggregate.HEAD_BYTES
    if kind == b"\0" and len(data) > head and rng.random() < 0.8:  # a checksum is no secret
        (length,) = struct.unpack_from("<I", data, 1)
        if head <= 5 + length <= len(data):
            digest = xxhash.xxh3_64(bytes(data[5 : head - 8]) + bytes(data[head : 5 + length]))
            data[head - 8 : head] = digest.intdigest().to_bytes(8, "little")
    return bytes(data)


def _use_sum(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind == b"\0" and len(rest) >= 4:
        (length,) = struct.unpack_from("<I", rest)
        aggregate.Adding(ROOM_BYTES).add(rest[4 : 4 + length], rest[4 + length :])
    elif kind == b"\1":
        plan = SketchPlan.from_wire(rest[:_SUM_PLAN_BYTES])
        words = rest[_SUM_PLAN_BYTES:]
        read = peel(plan, np.frombuffer(words[: len(words) // 8 * 8], np.uint64).copy())
        assert read.places.size <= plan.cells
    elif kind == b"\2":
        blocks = -(-_SUM_ITEMS // BLOCK_ITEMS)
        flat = np.frombuffer(rest.ljust(4 * blocks, b"\0")[: 4 * blocks], np.int16)
        given = np.linspace(-2, 2, _SUM_ITEMS, dtype=np.float32)
        element = BY_NAME["float32"]
        spans = Spans.from_flat(flat)
        for lane in (
            FixedPointFormat.lossless(spans, element, given.size, 3),
            FixedPointFormat.lossy(spans, element, 3, 2),
        ):
            if lane is not None:
                lane.from_integers(lane.to_integers(given), given.copy())
    elif kind == b"\4":
        told = Introduction.from_wire(rest, _SECURE_MEMBERS, "rank 1")
        assert told.to_wire() == rest
        Secrets(0, _SECURE_MEMBERS).pair_key(1, told.public_key, bytes(32), 0, "rank 1")
    elif kind == b"\5":
        _use_evidence(rest)
    elif kind == b"\6":
        _use_heads(rest)
    else:
        fixed = FixedPoint.from_wire(rest)
        fixed.from_ring(fixed.to_ring(np.array([fixed.limit, -fixed.limit])))


def _sparse(places: Any) -> tuple[Any, Element]:
    array = np.zeros(_SUM_ITEMS, np.float32)
    array[places] = places + 1
    return array, BY_NAME["float32"]


def _use_heads(data: bytes) -> None:
    """A sketch takes no more than the array, whatever was told of it."""
    heads = [data[at : at + HEAD_BYTES].ljust(HEAD_BYTES, b"\0") for at in (0, HEAD_BYTES, 2 * HEAD_BYTES)]
    places = np.arange(0, _SUM_ITEMS, 60)
    array, element = _sparse(places)
    terms = SketchTerms.of(heads, element, _SUM_ITEMS)
    if not terms.refusal:
        plan = SketchPlan.for_load(_SUM_ITEMS, terms.load)
        assert 8 * plan.words <= array.nbytes
        terms.sums([peel(plan, plan.sketch(places, terms.integers(array[places])))])


def _use_evidence(data: bytes) -> None:
    """One member of four has told this; the others keep to the protocol, and are named in a pair at most."""
    opening = MaskStatement.from_wire(data[: MaskStatement.size_bytes()], "rank 1")
    told = Evidence.from_wire(data[MaskStatement.size_bytes() :], _SECURE_MEMBERS, "rank 1")
    nothing = np.zeros((_SECURE_MEMBERS, TRIALS), np.uint64)
    blinded = nothing.copy()
    blinded[1] = opening.blinded
    facts = TrialFacts(0, np.ones(TRIALS, np.uint64), nothing[0], nothing, blinded)
    honest = Evidence(nothing, nothing)
    verdict = facts.judge([honest, told, honest, honest])
    assert verdict is None or 1 in verdict.ranks


TARGETS: dict[str, Target] = {
    **{
        name: Target(
            functools.partial(_make_body, libraries=libraries),
            _use_body,
            functools.partial(_body_samples, libraries),
            _LIBRARY_SLACK_BYTES,
        )
        for name, libraries in (("values", _PLAIN), ("arrow", _ARROW))
    },
    "chunks": Target(_make_chunk, _use_chunk, _chunks, _LIBRARY_SLACK_BYTES),
    "manifests": Target(_make_manifest, _use_manifest, _manifests),
    "fragments": Target(_make_fragments, _use_fragments, _fragment_samples, 4 << 20, _fed_bytes),
    "programs": Target(_make_program, _use_program, _program_samples),
    "preparations": Target(_make_prep, _use_prep, _prep_samples),
    "gossip": Target(gossip.make, gossip.use, gossip.samples, time_share=0.15),
    "sums": Target(_make_sum, _use_sum, _sum_samples, time_share=0.15),
    "texts": Target(_make_text, _use_text, _text_samples, _LIBRARY_SLACK_BYTES, from_peer=False),
}


def names(chosen: Sequence[str]) -> list[str]:
    """Those that were chosen, or all."""
    return [name for name in TARGETS if name in chosen or not chosen]
