"""Short programs that show how the parts of the library are used; see docs/examples.md."""
