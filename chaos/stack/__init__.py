"""Chaos over the whole native stack: servers and processes are hurt at random, then everything is audited."""
