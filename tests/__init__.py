"""The tests of spinup; a package, so that they can import their helpers."""
