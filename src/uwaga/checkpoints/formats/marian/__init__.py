"""Reader of Marian's model files."""
