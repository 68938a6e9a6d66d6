"""Public helpers for tests: a broker in the test's process, and a disk that misbehaves on command."""
