"""Which statements of db/queries are hot, by which indexes they go, and why the others are not or need none.

What is asked for each request, job, batch or window, by a pass or a poll, or by a page that refreshes itself,
is hot; what a person types once, or a process does at its start or end, is not.
"""

from __future__ import annotations

import re

GROWING = re.compile(
    r"^(event_log|job_queue|messages|conversations|contacts|group_link_dispatch_queue|followup_enrollments|swept"
    r"|trace_.*|closed_letters|replays)$"
)
"""Tables that grow with traffic: nobody reads one of them whole in a hot statement."""

LOOKED_UP = {
    # the worker, for every window
    "window_lengths": ["conversations_pkey", "ai_agent_versions_session", "windows_settings_scope"],
    "decide_facts": [
        "contacts_pkey", "conversations_pkey", "event_log_pkey", "messages_conversation", "messages_media",
        "rajada_job_queue_event_ids", "rajada_job_queue_source_event_id",
    ],
    "decide_eligibility": ["contacts_pkey", "conversations_pkey"],
    "decide_followup": [
        "contacts_pkey", "conversations_pkey", "messages_contact", "messages_pkey",
        "followup_enrollments_contact", "followup_enrollment_events_enrollment",
    ],
    # the sink, for every batch
    "sink_offsets_read": ["sink_offsets_pkey"],
    "sink_offsets_advance": ["sink_offsets_pkey"],
    "sink_events": ["event_log_pkey"],
    "sink_settle": ["event_log_pkey", "job_queue_pkey"],
    "sink_jobs": ["contacts_pkey", "rajada_job_queue_source_event_id", "rajada_job_queue_running"],
    "sink_jobs_moved": ["job_queue_pkey", "rajada_job_queue_running"],
    "sink_jobs_behind": ["job_queue_pkey", "rajada_job_queue_running"],
    "sink_jobs_handed_over": ["contacts_pkey", "rajada_job_queue_source_event_id", "trace job_id"],
    "sink_group_links": ["group_link_dispatch_queue_pkey"],
    "sink_trace": ["event_log_pkey", "job_queue_pkey", "trace event_id", "trace job_id"],
    "sink_alert": ["rajada_inbox_unresolved"],
    "sink_cures": ["troubles_family"],
    "sink_conditions_over": ["troubles_pkey"],
    # the relay and the sweep
    "relay_state": ["relay_pkey"],
    "relay_backfilled": ["relay_pkey"],
    "relay_backfill_page": ["rajada_event_log_open"],
    "sweep_waiting": ["rajada_event_log_open", "swept_pkey"],
    "sweep_claim": ["event_log_pkey", "rajada_event_log_open", "swept_pkey"],
    "sweep_unclaim": ["swept_pkey"],
    # a request, a job, or a poll of a worker
    "group_link_of_enrolment": ["group_link_dispatch_queue_enrolment"],
    "group_link_row": ["event_log_entity", "group_link_dispatch_queue_enrolment"],
    "group_link_show": ["group_link_dispatch_queue_pkey", "trace job_id"],
    "sessions_not_working": ["channel_sessions_pkey"],
    "whatsapp_number": ["whatsapp_numbers_pkey"],
    "group_links_ended": ["group_link_dispatch_queue_pkey"],
    "foreign_consumers": [
        "rajada_event_log_processing", "rajada_job_queue_foreign", "rajada_job_queue_running",
    ],
    # once a minute: the alert pass, leases, the care of group links
    "alerts_counts": ["rajada_inbox_unresolved"],
    "alerts_drains": ["event_log_due"],
    "alerts_heal": [
        "agent_inbox_items_open", "channel_sessions_pkey", "dropped_id", "event_log_pkey", "job_queue_pkey",
        "trace event_id", "trace job_id",
    ],
    "alerts_lanes": ["rajada_job_queue_waiting"],
    "alerts_lanes_of_links": ["group_link_dispatch_queue_due"],
    "alerts_letters": ["closed_letters_pkey"],
    "alerts_resolve": ["rajada_inbox_unresolved", "troubles_family"],
    "alerts_strangers": ["rajada_event_log_dead"],
    "alerts_strangers_note": ["agent_inbox_items_open", "event_log_pkey"],
    "alerts_untold": ["agent_inbox_items_open", "troubles_family"],
    "alerts_watched": ["troubles_pkey"],
    "group_links_stuck": ["event_log_entity", "rajada_group_links_processing"],
    "group_links_retire": [
        "group_link_dispatch_queue_ended", "group_link_dispatch_queue_pkey", "rajada_inbox_unresolved",
    ],
    "lease_take": ["leases_pkey"],
    "lease_release": ["leases_pkey"],
    # the reconciler
    "connect_look": ["requests_waiting", "schedules_pkey"],
    "connect_beat": ["schedules_pkey"],
    "connect_fire": ["firings_running", "requests_waiting", "schedules_pkey"],
    "connect_end": ["schedules_pkey"],
    "connect_settle": ["schedules_pkey"],
    "connect_reserve": ["whatsapp_instances_under_way"],
    "connect_rebuild": ["rajada_job_queue_running", "system_notifications_open", "whatsapp_instances_state"],
    "connect_move": ["whatsapp_instances_pkey"],
    "connect_release": ["whatsapp_instances_pkey"],
    "connect_history": ["firings_began", "requests_pkey"],
    "connect_unknown": ["whatsapp_instances_state"],
    # a page of letters that are requeued, and the shadow's looks
    "letters_closed": ["closed_letters_pkey"],
    "letters_close": ["closed_letters_pkey"],
    "letters_replays": ["closed_letters_about"],
    "run_note": ["replays_pkey"],
    "shadow_events": ["event_log_pkey"],
    "shadow_jobs": ["job_queue_contact"],
    # who asks why
    "why_kinds": [
        "contacts_pkey", "event_log_pkey", "job_queue_pkey", "messages_pkey", "trace contact_id",
        "trace event_id", "trace job_id", "trace message_id",
    ],
    "why_events": ["event_log_pkey"],
    "why_events_of_contact": ["rajada_event_log_open", "trace contact_id"],
    "why_events_of_job": ["job_queue_pkey", "trace job_id"],
    "why_events_of_message": [
        "event_log_entity", "messages_pkey", "rajada_event_log_open", "trace message_id",
    ],
    "why_jobs": ["job_queue_pkey", "rajada_job_queue_event_ids", "rajada_job_queue_source_event_id"],
    "why_trace": ["trace event_id", "trace job_id"],
    "why_place": ["contacts_pkey", "messages_pkey", "trace contact_id"],
    "why_group_links": ["group_link_dispatch_queue_pkey"],
    "why_settled": ["closed_letters_settled", "dropped_id", "replays_pkey"],
    "why_swept": ["swept_pkey"],
    "why_alerts": ["agent_inbox_items_open", "troubles_family"],
    # the live page, every few seconds, and commands
    "page_events": ["event_log_pkey"],
    "page_events_counts": ["rajada_event_log_dead", "rajada_event_log_open"],
    "page_instances_counts": ["whatsapp_instances_state"],
    "page_due_jobs": ["job_queue_due"],
    "page_next_jobs": ["rajada_job_queue_waiting"],
    "page_due_links": ["group_link_dispatch_queue_due"],
    "page_next_links": ["group_link_dispatch_queue_due"],
    "page_phones": ["contacts_pkey"],
    "page_tokens_find": ["page_tokens_pkey"],
    "tokens_find": ["tokens_pkey"],
    "events_done": ["event_log_pkey", "trace event_id"],
    "jobs_ended": ["job_queue_pkey"],
    "order_known": ["orders_pkey"],
    "order_outcome": ["trace job_id"],
    "order_place": ["job_queue_pkey", "trace job_id"],
    "order_place_of_link": ["group_link_dispatch_queue_pkey"],
}  # fmt: skip
"""Statement → the indexes that it needs; `trace x`: those on that column of all of the trace's partitions."""

NOT_LOOKED_UP = {
    "alerts_gaps": "rajada.relay has a row a slot",
    "alerts_slots": "the server's slots, and rajada.relay and rajada.heartbeats with a row each",
    "connect_forget": "once a run, and of what is older than 90 days",
    "group_link_enqueue": "two INSERTs; what is there already is told by whichever unique index says so",
    "group_links_counts": "counts the whole queue, which is retired",
    "heartbeats": "a row a connector",
    "jobs_list": "any filter or none, the newest first: no index serves them all",
    "jobs_list_group_links": "as jobs_list, over a queue that is retired",
    "letters_drop": "two INSERTs, joined by what they made",
    "order_pauses": "orders to pause and resume: people type them",
    "page_instances": "instances: as many as tenants have numbers, not as they have traffic",
    "page_jobs_counts": "counts the whole queue: done ones are shown, too",
    "relay_confirmed": "one row, by its slot, of a table with a row a slot",
    "relay_note_gap": "rajada.meta has one row",
    "sink_alert_lock": "an advisory lock",
    "sink_conditions": "of tenants that had trouble, once a pass",
    "sink_offsets_open": "an INSERT",
    "sink_organizations": "tenants by id, of a table that does not grow with traffic",
    "sink_progress": "rajada.sink_offsets has a row a partition",
    "sink_trace_partitions": "makes tables, once an hour",
    "sink_troubles": "an INSERT; tenants by id",
    "sweep_forget": "once an hour, over what the sweep itself has noted",
    "sweep_sink": "rajada.sink_offsets has a row a partition",
    "why_orders": "of the newest orders alone",
}
"""Hot statements that need no index, and why."""

WHOLE = {
    "foreign_consumers": {
        "event_log by rajada_event_log_processing", "job_queue by rajada_job_queue_foreign",
        "job_queue by rajada_job_queue_running",
    },
    "why_events_of_message": {"event_log by rajada_event_log_open"},
    "page_events_counts": {"event_log by rajada_event_log_dead", "event_log by rajada_event_log_open"},
}  # fmt: skip
"""Statement → what it may read whole: a table, or `table by index` where that index holds a small part."""

_COLD = {
    "once, when a worker starts": ["clock"],
    "a person's command, or its answer": [
        "alerts_list", "alerts_set", "connect_ask", "connect_preview", "group_links_held", "group_links_list",
        "jobs_unfinished", "lock_try", "order_answers", "order_forgotten", "order_note", "produce_events",
        "run_begin", "runs",
    ],
    "a person erases a contact": ["forget_counts", "forget_links", "forget_place", "forget_trace"],
    "a person makes, lists or revokes a token": [
        "page_tokens_add", "page_tokens_list", "page_tokens_revoke", "tokens_add", "tokens_list",
        "tokens_revoke",
    ],
    "a person sets numbers, or their keys are changed": [
        "whatsapp_number_drop", "whatsapp_number_reseal", "whatsapp_number_secrets", "whatsapp_number_set",
        "whatsapp_numbers",
    ],
    "the clinic's small database": ["clinic_contacts", "clinic_messages"],
    "the doctor's look": [
        "doctor_connections", "doctor_event_log", "doctor_group_links", "doctor_publication",
        "doctor_reconciler", "doctor_rights", "doctor_server", "doctor_slots",
    ],
    "migrations, slots and connectors, at a start": [
        "filterable_columns", "heartbeat_expect", "heartbeat_forget", "plan_state", "publication_state",
        "slot_drop", "slots", "tables_present",
    ],
    "a stretch of time that a report of the shadow asks for, once": ["shadow_unseen"],
}  # fmt: skip
COLD = {name: reason for reason, names in _COLD.items() for name in names}
"""Statements that are not hot, and why."""
