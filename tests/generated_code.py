"""Generate the protobuf code and the panel's contract; with --check, fail where what is committed differs."""

from __future__ import annotations

import dataclasses
import filecmp
import subprocess
import sys
import tempfile
import types
import typing
from pathlib import Path
from typing import Any

from duetlink_widgets import contract

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = sorted(path.relative_to(ROOT) for path in ROOT.glob("duetlink/*/*/schema.proto"))
CONTRACT = Path("js/src/contract.ts")


def generate(target: Path) -> list[Path]:
    """Generate everything into `target`; returns the generated files' relative paths."""
    return [*_protobuf(target), _contract(target)]


def _protobuf(target: Path) -> list[Path]:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT}",
            f"--python_out={target}",
            f"--pyi_out={target}",
        ]
        + [str(schema) for schema in SCHEMAS],
        cwd=ROOT,
        check=True,
    )
    return [schema.with_name(f"schema_pb2{ending}") for schema in SCHEMAS for ending in (".py", ".pyi")]


def _contract(target: Path) -> Path:
    """TypeScript for the constants and dataclasses of `duetlink_widgets.contract`."""
    parts = [
        "// Generated from widgets/duetlink_widgets/contract.py by tests/generated_code.py. Do not edit.",
        "/** A peer's words: shown as text only, made visible first. */\n"
        'export type Foreign = string & { readonly foreign: "peer" };',
    ]
    for name, value in vars(contract).items():
        if name.isupper():
            parts.append(f"export const {name} = {_literal(value)};")
        elif dataclasses.is_dataclass(value):
            parts.append(_interface(typing.cast(type, value)))
    path = target / CONTRACT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n")
    return CONTRACT


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return "[\n" + "".join(f"  {_literal(item)},\n" for item in value) + "] as const"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _interface(shape: type) -> str:
    hints = typing.get_type_hints(shape)
    fields = "".join(f"  {field.name}: {_type(hints[field.name])};\n" for field in dataclasses.fields(shape))
    lines = (shape.__doc__ or "").rstrip().splitlines()
    words = (
        f"/** {lines[0]} */" if len(lines) == 1 else "\n * ".join(["/**", *(line.strip() for line in lines)])
    )
    words = words if len(lines) == 1 else words + "\n */"
    return f"{words}\nexport interface {shape.__name__} {{\n{fields}}}"


def _type(hint: Any) -> str:
    names = {
        str: "string",
        int: "number",
        float: "number",
        bool: "boolean",
        type(None): "null",
        Any: "unknown",
    }
    if hint is contract.Foreign:
        return "Foreign"
    if dataclasses.is_dataclass(hint):
        return typing.cast(type, hint).__name__
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(_literal(value) for value in of)
    if origin in (types.UnionType, typing.Union):
        return " | ".join(_type(one) for one in of)
    if origin is list:
        inner = _type(of[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<{_type(of[0])}, {_type(of[1])}>"
    return names[hint]


def main() -> int:
    if "--check" not in sys.argv[1:]:
        for path in generate(ROOT):
            print(path)
        return 0
    with tempfile.TemporaryDirectory() as target:
        generated = generate(Path(target))
        stale = [
            path
            for path in generated
            if not (ROOT / path).exists() or not filecmp.cmp(ROOT / path, Path(target) / path, shallow=False)
        ]
    for path in stale:
        print(f"{path} is not what its source generates; run `python tests/generated_code.py`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
