"""How the trainer is started: in a container of the pinned image, or straight on this host."""
