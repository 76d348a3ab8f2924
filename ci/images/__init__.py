"""The container images: what they hold, how they are built, proved and pinned."""
