"""GGUF, the file format of llama.cpp, with quantised weights and the tokeniser of a decoder-only model."""
