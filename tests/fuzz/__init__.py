"""Mutated files and options: whatever comes in, out comes a result or a sentence.

``mutate`` damages what is sound, ``readers`` lists everything in the bench that reads a file and ``options`` every
option that is a small language of its own, ``runner`` tries them. ``make fuzz`` does some thousand of each; the tests a
few.
"""
