"""Keeping several processes up as one: what runs, in which order, and what is done when one of them dies."""
