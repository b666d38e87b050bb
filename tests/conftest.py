from hypothesis import settings

# A busy machine takes its time over any example. The examples are the same in each run, so that a change is
# refused for its own faults alone; `make fuzz` searches with new ones.
settings.register_profile("patient", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=50)
settings.load_profile("patient")
