"""A stand-in for the WhatsApp Cloud API: takes templates, fails as it is told, counts what it took."""
