"""Consumer groups and committed offsets as pure state machines: command in, reply and facts out."""
