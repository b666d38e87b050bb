from hypothesis import settings

# A busy machine takes its time over any example.
settings.register_profile("patient", deadline=None, max_examples=50)
settings.load_profile("patient")
