"""Sans-IO codecs, one folder per protocol: bytes in, values out. Protocols do not know one another."""
