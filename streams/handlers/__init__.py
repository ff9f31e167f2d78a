"""What does a job: one handler a kind. docs/handlers.md tells how to add one."""
