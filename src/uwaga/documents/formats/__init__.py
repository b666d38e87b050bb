"""One file a format; :mod:`uwaga.documents.document` finds them."""
