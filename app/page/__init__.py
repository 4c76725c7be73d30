"""The pages: a file each, with its words, its layout and a function `show()`; `app/contents.py` lists them.

The folder is not named "pages": one of that name beside main.py Streamlit takes for an application of its own
kind, and runs the file that a link names by itself.
"""
