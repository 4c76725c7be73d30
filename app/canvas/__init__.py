"""What all moving pictures share: how they are packed, joined, shown, played, and what they look like."""
