"""Files of numbers, and files written whole or not at all."""
