"""The node agent for counters that need privilege. Not there yet: this package only keeps its place."""
