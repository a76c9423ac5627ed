"""The command line of the client: one module per kind of thing, loaded when it is used."""
