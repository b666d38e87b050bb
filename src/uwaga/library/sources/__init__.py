"""Where models can be downloaded, a module for each source."""
