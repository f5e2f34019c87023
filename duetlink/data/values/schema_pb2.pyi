from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Header(_message.Message):
    __slots__ = ("nodes", "segment_sizes")
    NODES_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_SIZES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[bytes]
    segment_sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[bytes]] = ..., segment_sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("none", "boolean", "integer", "big_integer", "real", "complex", "text", "long_text", "octets", "long_octets", "mutable_octets", "long_mutable_octets", "list", "tuple", "dict", "set", "frozenset", "ordered_dict", "range", "slice", "ellipsis", "date", "time", "datetime", "duration", "fixed_zone", "zone", "decimal", "uuid", "array", "string_array", "scalar", "numpy_text", "numpy_octets", "object_array", "tensor", "arrow", "frame", "series", "index", "range_index", "multi_index", "categorical", "zoned_times", "masked", "string_column", "arrow_column", "period", "interval", "text_objects", "objects", "instant", "span", "not_a_time", "not_available", "polars", "foreign")
    NONE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    BIG_INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    COMPLEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LONG_TEXT_FIELD_NUMBER: _ClassVar[int]
    OCTETS_FIELD_NUMBER: _ClassVar[int]
    LONG_OCTETS_FIELD_NUMBER: _ClassVar[int]
    MUTABLE_OCTETS_FIELD_NUMBER: _ClassVar[int]
    LONG_MUTABLE_OCTETS_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    TUPLE_FIELD_NUMBER: _ClassVar[int]
    DICT_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    FROZENSET_FIELD_NUMBER: _ClassVar[int]
    ORDERED_DICT_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    ELLIPSIS_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DATETIME_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    FIXED_ZONE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    STRING_ARRAY_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    NUMPY_TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMPY_OCTETS_FIELD_NUMBER: _ClassVar[int]
    OBJECT_ARRAY_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RANGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    MULTI_INDEX_FIELD_NUMBER: _ClassVar[int]
    CATEGORICAL_FIELD_NUMBER: _ClassVar[int]
    ZONED_TIMES_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    STRING_COLUMN_FIELD_NUMBER: _ClassVar[int]
    ARROW_COLUMN_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    NOT_A_TIME_FIELD_NUMBER: _ClassVar[int]
    NOT_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    POLARS_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    none: Empty
    boolean: bool
    integer: int
    big_integer: bytes
    real: int
    complex: Complex
    text: bytes
    long_text: Empty
    octets: bytes
    long_octets: Empty
    mutable_octets: bytes
    long_mutable_octets: Empty
    list: int
    tuple: int
    dict: int
    set: int
    frozenset: int
    ordered_dict: OrderedDict
    range: Empty
    slice: Empty
    ellipsis: Empty
    date: Date
    time: Time
    datetime: DateTime
    duration: Duration
    fixed_zone: Empty
    zone: str
    decimal: str
    uuid: bytes
    array: Array
    string_array: StringArray
    scalar: Scalar
    numpy_text: bytes
    numpy_octets: bytes
    object_array: ObjectArray
    tensor: Tensor
    arrow: Arrow
    frame: Frame
    series: Series
    index: Index
    range_index: Empty
    multi_index: int
    categorical: Categorical
    zoned_times: str
    masked: Empty
    string_column: StringColumn
    arrow_column: Empty
    period: str
    interval: str
    text_objects: Empty
    objects: Empty
    instant: Instant
    span: Instant
    not_a_time: Empty
    not_available: Empty
    polars: Polars
    foreign: Foreign
    def __init__(self, none: _Optional[_Union[Empty, _Mapping]] = ..., boolean: bool = ..., integer: _Optional[int] = ..., big_integer: _Optional[bytes] = ..., real: _Optional[int] = ..., complex: _Optional[_Union[Complex, _Mapping]] = ..., text: _Optional[bytes] = ..., long_text: _Optional[_Union[Empty, _Mapping]] = ..., octets: _Optional[bytes] = ..., long_octets: _Optional[_Union[Empty, _Mapping]] = ..., mutable_octets: _Optional[bytes] = ..., long_mutable_octets: _Optional[_Union[Empty, _Mapping]] = ..., list: _Optional[int] = ..., tuple: _Optional[int] = ..., dict: _Optional[int] = ..., set: _Optional[int] = ..., frozenset: _Optional[int] = ..., ordered_dict: _Optional[_Union[OrderedDict, _Mapping]] = ..., range: _Optional[_Union[Empty, _Mapping]] = ..., slice: _Optional[_Union[Empty, _Mapping]] = ..., ellipsis: _Optional[_Union[Empty, _Mapping]] = ..., date: _Optional[_Union[Date, _Mapping]] = ..., time: _Optional[_Union[Time, _Mapping]] = ..., datetime: _Optional[_Union[DateTime, _Mapping]] = ..., duration: _Optional[_Union[Duration, _Mapping]] = ..., fixed_zone: _Optional[_Union[Empty, _Mapping]] = ..., zone: _Optional[str] = ..., decimal: _Optional[str] = ..., uuid: _Optional[bytes] = ..., array: _Optional[_Union[Array, _Mapping]] = ..., string_array: _Optional[_Union[StringArray, _Mapping]] = ..., scalar: _Optional[_Union[Scalar, _Mapping]] = ..., numpy_text: _Optional[bytes] = ..., numpy_octets: _Optional[bytes] = ..., object_array: _Optional[_Union[ObjectArray, _Mapping]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., arrow: _Optional[_Union[Arrow, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ..., series: _Optional[_Union[Series, _Mapping]] = ..., index: _Optional[_Union[Index, _Mapping]] = ..., range_index: _Optional[_Union[Empty, _Mapping]] = ..., multi_index: _Optional[int] = ..., categorical: _Optional[_Union[Categorical, _Mapping]] = ..., zoned_times: _Optional[str] = ..., masked: _Optional[_Union[Empty, _Mapping]] = ..., string_column: _Optional[_Union[StringColumn, _Mapping]] = ..., arrow_column: _Optional[_Union[Empty, _Mapping]] = ..., period: _Optional[str] = ..., interval: _Optional[str] = ..., text_objects: _Optional[_Union[Empty, _Mapping]] = ..., objects: _Optional[_Union[Empty, _Mapping]] = ..., instant: _Optional[_Union[Instant, _Mapping]] = ..., span: _Optional[_Union[Instant, _Mapping]] = ..., not_a_time: _Optional[_Union[Empty, _Mapping]] = ..., not_available: _Optional[_Union[Empty, _Mapping]] = ..., polars: _Optional[_Union[Polars, _Mapping]] = ..., foreign: _Optional[_Union[Foreign, _Mapping]] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Complex(_message.Message):
    __slots__ = ("real", "imaginary")
    REAL_FIELD_NUMBER: _ClassVar[int]
    IMAGINARY_FIELD_NUMBER: _ClassVar[int]
    real: int
    imaginary: int
    def __init__(self, real: _Optional[int] = ..., imaginary: _Optional[int] = ...) -> None: ...

class OrderedDict(_message.Message):
    __slots__ = ("pairs", "metadata")
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    pairs: int
    metadata: bool
    def __init__(self, pairs: _Optional[int] = ..., metadata: bool = ...) -> None: ...

class Date(_message.Message):
    __slots__ = ("ordinal",)
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    def __init__(self, ordinal: _Optional[int] = ...) -> None: ...

class Time(_message.Message):
    __slots__ = ("microseconds", "fold")
    MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    microseconds: int
    fold: bool
    def __init__(self, microseconds: _Optional[int] = ..., fold: bool = ...) -> None: ...

class DateTime(_message.Message):
    __slots__ = ("ordinal", "microseconds", "fold")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    microseconds: int
    fold: bool
    def __init__(self, ordinal: _Optional[int] = ..., microseconds: _Optional[int] = ..., fold: bool = ...) -> None: ...

class Duration(_message.Message):
    __slots__ = ("days", "seconds", "microseconds")
    DAYS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    days: int
    seconds: int
    microseconds: int
    def __init__(self, days: _Optional[int] = ..., seconds: _Optional[int] = ..., microseconds: _Optional[int] = ...) -> None: ...

class DType(_message.Message):
    __slots__ = ("kind", "size_bytes", "big_endian", "mantissa_bits", "unit", "unit_count", "fields", "aligned", "record", "base", "shape")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[DType.Kind]
        BOOL: _ClassVar[DType.Kind]
        INT: _ClassVar[DType.Kind]
        UINT: _ClassVar[DType.Kind]
        FLOAT: _ClassVar[DType.Kind]
        COMPLEX: _ClassVar[DType.Kind]
        DATETIME: _ClassVar[DType.Kind]
        TIMEDELTA: _ClassVar[DType.Kind]
        OCTETS: _ClassVar[DType.Kind]
        TEXT: _ClassVar[DType.Kind]
        VOID: _ClassVar[DType.Kind]
        STRUCT: _ClassVar[DType.Kind]
        SUBARRAY: _ClassVar[DType.Kind]
    UNSPECIFIED: DType.Kind
    BOOL: DType.Kind
    INT: DType.Kind
    UINT: DType.Kind
    FLOAT: DType.Kind
    COMPLEX: DType.Kind
    DATETIME: DType.Kind
    TIMEDELTA: DType.Kind
    OCTETS: DType.Kind
    TEXT: DType.Kind
    VOID: DType.Kind
    STRUCT: DType.Kind
    SUBARRAY: DType.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BIG_ENDIAN_FIELD_NUMBER: _ClassVar[int]
    MANTISSA_BITS_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    UNIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    ALIGNED_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    kind: DType.Kind
    size_bytes: int
    big_endian: bool
    mantissa_bits: int
    unit: str
    unit_count: int
    fields: _containers.RepeatedCompositeFieldContainer[Field]
    aligned: bool
    record: bool
    base: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[_Union[DType.Kind, str]] = ..., size_bytes: _Optional[int] = ..., big_endian: bool = ..., mantissa_bits: _Optional[int] = ..., unit: _Optional[str] = ..., unit_count: _Optional[int] = ..., fields: _Optional[_Iterable[_Union[Field, _Mapping]]] = ..., aligned: bool = ..., record: bool = ..., base: _Optional[_Union[DType, _Mapping]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Field(_message.Message):
    __slots__ = ("name", "offset", "dtype")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    offset: int
    dtype: DType
    def __init__(self, name: _Optional[bytes] = ..., offset: _Optional[int] = ..., dtype: _Optional[_Union[DType, _Mapping]] = ...) -> None: ...

class Array(_message.Message):
    __slots__ = ("dtype", "shape", "fortran", "read_only", "coded")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    FORTRAN_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    CODED_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    fortran: bool
    read_only: bool
    coded: bool
    def __init__(self, dtype: _Optional[_Union[DType, _Mapping]] = ..., shape: _Optional[_Iterable[int]] = ..., fortran: bool = ..., read_only: bool = ..., coded: bool = ...) -> None: ...

class StringArray(_message.Message):
    __slots__ = ("shape", "has_na", "strict", "read_only")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    HAS_NA_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    has_na: bool
    strict: bool
    read_only: bool
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., has_na: bool = ..., strict: bool = ..., read_only: bool = ...) -> None: ...

class ObjectArray(_message.Message):
    __slots__ = ("shape",)
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, shape: _Optional[_Iterable[int]] = ...) -> None: ...

class Scalar(_message.Message):
    __slots__ = ("dtype", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    data: bytes
    def __init__(self, dtype: _Optional[_Union[DType, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "order", "requires_grad", "parameter", "coded")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    CODED_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    order: _containers.RepeatedScalarFieldContainer[int]
    requires_grad: bool
    parameter: bool
    coded: bool
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., order: _Optional[_Iterable[int]] = ..., requires_grad: bool = ..., parameter: bool = ..., coded: bool = ...) -> None: ...

class Arrow(_message.Message):
    __slots__ = ("kind",)
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Arrow.Kind]
        TABLE: _ClassVar[Arrow.Kind]
        BATCH: _ClassVar[Arrow.Kind]
        ARRAY: _ClassVar[Arrow.Kind]
        CHUNKED: _ClassVar[Arrow.Kind]
        SCALAR: _ClassVar[Arrow.Kind]
        SCHEMA: _ClassVar[Arrow.Kind]
    UNSPECIFIED: Arrow.Kind
    TABLE: Arrow.Kind
    BATCH: Arrow.Kind
    ARRAY: Arrow.Kind
    CHUNKED: Arrow.Kind
    SCALAR: Arrow.Kind
    SCHEMA: Arrow.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: Arrow.Kind
    def __init__(self, kind: _Optional[_Union[Arrow.Kind, str]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("columns", "unique_labels")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_LABELS_FIELD_NUMBER: _ClassVar[int]
    columns: int
    unique_labels: bool
    def __init__(self, columns: _Optional[int] = ..., unique_labels: bool = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("unique_labels",)
    UNIQUE_LABELS_FIELD_NUMBER: _ClassVar[int]
    unique_labels: bool
    def __init__(self, unique_labels: bool = ...) -> None: ...

class Index(_message.Message):
    __slots__ = ("frequency",)
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    frequency: str
    def __init__(self, frequency: _Optional[str] = ...) -> None: ...

class Categorical(_message.Message):
    __slots__ = ("ordered",)
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    ordered: bool
    def __init__(self, ordered: bool = ...) -> None: ...

class StringColumn(_message.Message):
    __slots__ = ("arrow_storage", "nan")
    ARROW_STORAGE_FIELD_NUMBER: _ClassVar[int]
    NAN_FIELD_NUMBER: _ClassVar[int]
    arrow_storage: bool
    nan: bool
    def __init__(self, arrow_storage: bool = ..., nan: bool = ...) -> None: ...

class Instant(_message.Message):
    __slots__ = ("count", "unit", "fold")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    count: int
    unit: str
    fold: bool
    def __init__(self, count: _Optional[int] = ..., unit: _Optional[str] = ..., fold: bool = ...) -> None: ...

class Polars(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: bool
    def __init__(self, series: bool = ...) -> None: ...

class Foreign(_message.Message):
    __slots__ = ("library", "data")
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    library: str
    data: bytes
    def __init__(self, library: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...
