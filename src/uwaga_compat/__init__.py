"""The interfaces of other libraries, implemented with uwaga's models."""
