"""The `rajada` command: the embedded stack, its supervisor, the demo and the tools of operation."""
