"""Readers and writers of uwaga's model folders with floating-point, int8 or int4 weights."""
