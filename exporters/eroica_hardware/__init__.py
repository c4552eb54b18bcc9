"""The node agent for counters that need privilege: sources, samplers, rings and socket; no command yet."""
