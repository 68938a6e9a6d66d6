"""Side-by-side measurements of Trunkline and the real Apache Kafka; `python -m bench --help`."""
