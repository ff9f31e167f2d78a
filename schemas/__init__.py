"""Avro schemas of what is ours, the records they describe, and the codec between the two."""
