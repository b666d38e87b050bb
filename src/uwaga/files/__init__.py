"""Files and networks: atomic writes, locks, archives with bounds, lines, object stores, HTTP."""
