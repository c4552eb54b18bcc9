"""The node agent for counters that need privilege: sources, samplers, rings and socket; its command is not there yet."""
