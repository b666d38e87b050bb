"""uwaga's model folders: float, int8 and int4."""
