"""A stand-in for the agent engine: answers turns over HTTP as it is told, and remembers what it was asked."""
