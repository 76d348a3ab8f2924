"""The accelerators of this machine, and who holds them."""
