"""A Model Context Protocol (MCP) server that offers translation tools to language models."""
