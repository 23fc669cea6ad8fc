"""Tables and pictures; no mathematics."""
