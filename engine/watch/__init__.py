"""A Triton kernel watched while Triton's interpreter runs it. torch and Triton are imported when called."""
