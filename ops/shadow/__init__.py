"""Shadow mode: what the shadow decided beside what the old drain did (docs/shadow.md).

`compare` is pure; `ours` reads the shadow's topic, `theirs` the CRM's tables, `report` puts them together.
"""
