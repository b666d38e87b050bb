"""One file a format; :mod:`uwaga.documents.registry` finds them."""
