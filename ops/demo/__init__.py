"""`rajada demo`: a minute of a clinic's WhatsApp on the real pipeline, shown live and accounted for."""
