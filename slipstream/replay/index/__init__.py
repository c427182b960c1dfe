"""Which rows belong to which episode."""
