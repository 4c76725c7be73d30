"""What a call is: its checked arguments, sizes, mask and terms."""
