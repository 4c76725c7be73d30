"""One sequence over several GPUs: what each computes and when, what crosses a link, what fits in memory."""
