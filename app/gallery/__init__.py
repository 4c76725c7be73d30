"""A static site of the same pictures and numbers: it needs no server, no network and no session."""
