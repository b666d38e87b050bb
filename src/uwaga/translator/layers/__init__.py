"""The layers of a translation, one per module; :func:`uwaga.translator.pipeline.pipeline` joins them."""
