"""`rajada doctor`: looks at everything that Rajada stands on, changes nothing, says what to do."""
