"""The live page: what is coming in, what waits, what went wrong, and what people do about it."""
