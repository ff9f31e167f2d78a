"""The HTTP API: group links are asked for, reminders sent, and what became of them is told."""
