"""What the cluster agrees on: topics, configs, ids. A store port, and SQLite behind it."""
