"""Files and networks: atomic writes, locks, untrusted files and archives, lines, object stores, HTTP,
retries.
"""
