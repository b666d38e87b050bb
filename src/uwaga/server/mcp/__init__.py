"""A server of the Model Context Protocol: translation as tools for language models."""
