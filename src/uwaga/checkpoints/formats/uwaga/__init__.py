"""uwaga's own model folders: float and int8."""
