"""What the scenarios cost, and what they may."""
