"""Views: one page a file, each with one function `show()`."""
