"""What people do with group links: look at them, send or close held ones; tokens and numbers."""
