"""/metrics for as long as its port can be had: a port that is taken is tried again, and sampling waits for none.

Takes what makes the server, gives it once it could be made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from eroica_hardware.serve import MetricsServer
from eroica_otel.errors import DeliveryError

LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0


class Endpoint:
    """The agent's endpoint, or none yet.

    Attributes:
        server: The server, None where its port is taken.
    """

    def __init__(self, make: Callable[[], MetricsServer], clock: Callable[[], float] = time.monotonic) -> None:
        """Bind, if the port is free; ``make`` raises DeliveryError where it is not.

        Raises:
            ConfigError: the host is not this machine, or the certificate cannot be loaded.
        """
        self.server: MetricsServer | None = None
        self._make, self._clock = make, clock
        self._started = False
        self._tried = clock()
        try:
            self.server = make()
        except DeliveryError as error:
            LOG.warning("%s. /metrics waits for the port, sampling goes on without", error)

    def start(self) -> None:
        """Serve, now or once the port is free."""
        self._started = True
        if self.server is not None:
            self.server.start("metrics")

    def look(self) -> None:
        """Try the port again, every 10 s; raises ConfigError where the host or the certificate has gone."""
        if self.server is not None or self._clock() - self._tried < AGAIN_SECONDS:
            return
        self._tried = self._clock()
        try:
            self.server = self._make()
        except DeliveryError:  # it was said
            return
        if self._started:
            self.server.start("metrics")
        LOG.info("the port is free: series on %s/metrics", self.server.url)

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self.server is not None:
            self.server.stop()
