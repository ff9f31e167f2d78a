"""What a process tells about itself while it runs: metrics, probes, traces. Nothing here moves data."""
