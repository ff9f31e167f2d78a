"""Whether the schemas may change as they did: every committed version stays readable (docs/schemas.md).

The rule is BACKWARD_TRANSITIVE: the newest version reads what any older one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

import avro.compatibility
import avro.schema

from schemas.history import CURRENT_FILES, Version


def problems(record: str, current: str, committed: Sequence[Version]) -> list[str]:
    """What is wrong with a record's versions, each with what to do; empty when all is well.

    `current` is the text of the .avsc beside the code, `committed` its versions, oldest first.
    """
    folder = f"schemas/versions/{record}"
    file = f"schemas/{CURRENT_FILES.get(record, record)}"
    if not committed:
        return [f"{record} has no committed version: copy {file} to {folder}/1.avsc"]
    numbers = [version.number for version in committed]
    if numbers != list(range(1, len(numbers) + 1)):
        return [f"{folder} has the versions {numbers}: number them 1, 2, 3, … and never remove one"]
    newest = committed[-1]
    if current != newest.text:
        return [
            f"{file} differs from {folder}/{newest.number}.avsc: if only words in `doc` changed, copy it "
            f"over that file; else copy it to {folder}/{newest.number + 1}.avsc (docs/schemas.md)"
        ]
    found: list[str] = []
    for older in committed[:-1]:
        for reason in incompatibilities(reader=newest.text, writer=older.text):
            found.append(
                f"{record} version {newest.number} can't read version {older.number}: {reason}; "
                "give added fields a default, and neither rename nor retype one"
            )
    return found


def incompatibilities(*, reader: str, writer: str) -> list[str]:
    """Why `reader` can't read everything that `writer` wrote; empty when it can. Both are .avsc text."""
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()
    result = checker.get_compatibility(avro.schema.parse(reader), avro.schema.parse(writer))
    if result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return []
    return sorted(result.messages) or ["incompatible"]
