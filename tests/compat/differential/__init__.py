"""The same raw requests to Apache Kafka and to Trunkline, and every difference between their answers.

A scenario (`scenarios_*.py`) is a function that asks one peer step by step; it runs on both, at several versions of the
request it is about. Answers are made plain (`plain.py`: what must differ, such as ids and ports, is named) and compared
field by field (`compare.py`). `known.py` holds the differences that are meant, each with its reason; any other one
fails the run.
"""
