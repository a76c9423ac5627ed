"""The exchange of the encryption key: what was encrypted with an older one is encrypted again.

Owns the steps of an exchange, not the keys: those are in storage/encrypted.py. Read
reencryption.py (segments), metadata_keys.py, request.py, progress.py. docs/adr/0021 has the whole.
"""
