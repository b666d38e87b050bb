"""Language codes, their names, scripts and detection."""
