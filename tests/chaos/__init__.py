"""A broker that is killed again and again under real clients, and what must hold after every restart."""
