"""Answers to problem set 1; that of exercise 1.3 is the library's own `td3.py`."""
