"""The `trunkline` command."""
