"""The record batch, its records and their compression."""
