"""Tasks: everything that is specific to one problem."""
