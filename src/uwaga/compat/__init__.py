"""The interfaces of other libraries, on uwaga's models."""
