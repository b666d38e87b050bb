from hypothesis import settings

settings.register_profile("patient", deadline=None)  # a busy machine takes its time over any example
settings.load_profile("patient")
