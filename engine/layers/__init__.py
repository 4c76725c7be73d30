"""A model as its config.json publishes it: its layers, and what a phase makes of each kind of them."""
