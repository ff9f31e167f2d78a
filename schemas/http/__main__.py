"""`python -m schemas.http` writes the JSON Schemas of the types anew."""

from __future__ import annotations

from schemas.http import FILES, FOLDER, schema_text

for name, described in FILES.items():
    (FOLDER / name).write_text(schema_text(described), encoding="utf-8")
