"""Built-in policies, one file each."""
