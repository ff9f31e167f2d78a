"""Stand-ins for a CRM's own programs: a polling drain and workers of its job queue, as real processes.

They do what the reference system does (cases b128 to b133 and b161 to b173) with shorter times, and write
down what they did in tables of their own, so that tests can count.
"""
