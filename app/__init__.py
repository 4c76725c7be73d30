"""The dashboard: lays out what the engine computes, and computes nothing itself."""
