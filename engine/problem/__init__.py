"""What is asked of attention: GPUs, shapes, masks, tiles under a mask, and the numbers that it runs on."""
