"""The dashboards as data (one module each) and what makes Grafana's JSON of them."""
