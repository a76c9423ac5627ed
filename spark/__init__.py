"""The PySpark data source. It knows the wire, not the server; nothing is built here yet."""
