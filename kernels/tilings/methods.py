"""Methods over several GPUs: how what they bring is cut."""

GROUPS = 4  # of heads at most, in which gathered keys and exchanged heads come: the first is waited for
GROUP_BYTES = 48 * 2**20  # that a group brings at least: smaller ones take longer to start than to move
