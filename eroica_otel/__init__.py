"""eroica_otel: names the worker, the function and the cause when a training job gets slow."""

__version__ = "0.1.0"
