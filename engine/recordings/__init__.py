"""What GPUs were measured to do: the types, the files, and the rows nearest to a scenario."""
