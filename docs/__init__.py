"""The documentation; the scripts that build it import each other from here."""
