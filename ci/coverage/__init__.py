"""Which capability of verl is covered by which scenario, today and before."""
