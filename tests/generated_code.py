"""Generate the protobuf code, or with --check: fail where the committed code is another."""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = sorted(path.relative_to(ROOT) for path in ROOT.glob("duetlink/*/schema.proto"))


def generate(target: Path) -> list[Path]:
    """Run protoc for every schema into `target`; returns the generated files' relative paths."""
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


def main() -> int:
    if "--check" not in sys.argv[1:]:
        for path in generate(ROOT):
            print(path)
        return 0
    with tempfile.TemporaryDirectory() as target:
        generated = generate(Path(target))
        stale = [
            path for path in generated if not filecmp.cmp(ROOT / path, Path(target) / path, shallow=False)
        ]
    for path in stale:
        print(f"{path} is not what its schema.proto generates; run `make proto`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
