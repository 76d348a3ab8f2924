"""Stand-in until the identity is there."""
def inside_image() -> None:
    """Return nothing."""
