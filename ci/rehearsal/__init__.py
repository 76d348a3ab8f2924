"""The CPU rehearsal: its environments, its model and its data."""
