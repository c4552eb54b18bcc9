"""The node agent: sources of hardware samples, samplers, rings, socket and /metrics; ``eroica-hardware`` runs it."""
