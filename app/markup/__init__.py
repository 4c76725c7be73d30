"""What the project writes its words in, Markdown and TeX, as HTML and MathML."""
