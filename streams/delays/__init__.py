"""The forwarder of the delay topics: `rajada delays` (spec/jobs.md, "Delay topics"; docs/delays.md).

Pure: `broker_clock` (what time it is on Kafka's clock), `queues` (what was read and may not leave yet),
`plan` (where a record goes), `lateness`, `forwarder` (the cycle that joins them).
Edges: `probe`, `intake`, `outlet`, `identity`, `process`.
"""
