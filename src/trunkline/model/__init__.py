"""Ids, errors, limits, settings: frozen values. Imports nothing of ours."""
