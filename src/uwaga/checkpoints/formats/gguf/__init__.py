"""GGUF, the files of llama.cpp: decoder-only models with quantised weights and their tokeniser."""
