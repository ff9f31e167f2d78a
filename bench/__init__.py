"""Measurements of Rajada on real servers; each module says what it measures, how, and the bar."""
