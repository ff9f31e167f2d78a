-- How many instances are in a state that we don't know. No parameters. Rows: state text, instances bigint.
SELECT u.state, sum(u.instances)::bigint FROM connect.whatsapp_unknown_states u GROUP BY u.state ORDER BY u.state
