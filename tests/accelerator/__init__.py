"""A device that torch takes for an accelerator, and trainings on it whose truth is known.

`native/` is the device, `fake.py` what `torch.fake` offers, `loop.py` and `modules.py` the
trainings, and `truth.py` reads in the device's own log what they did.
"""
