"""Access to files and networks: atomic writes, locks, untrusted files and archives, object stores, HTTP."""
