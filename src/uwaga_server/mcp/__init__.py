"""A server for the Model Context Protocol (MCP): translation as tools for language models."""
